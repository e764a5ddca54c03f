//! Reads an ELF file that a process has mapped: its segments, build-id, sections and symbols. The file may be hostile, so there are limits:
//! a sparse file of 20 KiB on disk can say that its table of symbols has 3 GiB.

use std::os::unix::fs::FileExt;

pub use object::ReadRef;
use object::elf::{self, FileHeader64, PT_LOAD, PT_NOTE, ProgramHeader64, SHT_DYNSYM, SHT_SYMTAB};
use object::read::elf::{CompressionHeader, FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym, SymbolTable};
use object::{CompressedData, CompressionFormat, Endianness, ReadCache};

use crate::blocks::FileBlocks;
use crate::file::Opened;

/// A file's bytes. Parts that were read are kept.
pub type FileCache<'a> = ReadCache<FileBlocks<'a>>;

/// The most bytes of a table of symbols, and of a note. Chromium's table has 40 MiB.
const MOST: u64 = 64 << 20;
const MOST_OF_NOTES: u64 = 1 << 20;
/// The most sections. A file built with a section for each function has some 100,000 before it is linked.
const MOST_SECTIONS: u64 = 4 << 20;
const PAGE: u64 = 4096;

/// A table of symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolSection {
    /// All symbols. A stripped file does not have this table.
    Full,
    /// The symbols to which other files can bind.
    Dynamic,
}

/// A symbol of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its address as written in the file.
    pub address: u64,
    /// Its length in bytes; 0 if it is not known.
    pub bytes: u64,
    /// What it is.
    pub kind: SymbolKind,
    /// Whether the symbol is defined in this file. If not, another file defines it.
    pub is_defined: bool,
    /// Whether the symbol is visible only in its source file.
    pub is_local: bool,
}

/// What a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// A function.
    Function,
    /// A variable.
    Variable,
    /// The source file of the local symbols that follow.
    File,
    /// Something else.
    Other,
}

/// An ELF file with 64-bit addresses: an open file, or bytes in memory.
pub struct Elf<'a, R: ReadRef<'a> = &'a FileCache<'a>> {
    endian: Endianness,
    data: R,
    /// Its segments.
    pub segments: &'a [ProgramHeader64<Endianness>],
    sections: SectionTable<'a, FileHeader64<Endianness>, R>,
}

/// The bytes of an open file, for [`Elf::of`].
pub fn cache(opened: &Opened) -> FileCache<'_> {
    ReadCache::new(FileBlocks::new(opened))
}

impl<'a, R: ReadRef<'a>> Elf<'a, R> {
    /// Reads the headers. `None` if it is no such file.
    pub fn of(data: R) -> Option<Elf<'a, R>> {
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, data).ok()?;
        let count = u64::from(header.e_shnum(endian));
        let sections = if count * size_of::<elf::SectionHeader64<Endianness>>() as u64 > MOST_SECTIONS {
            SectionTable::default()
        } else {
            header.sections(endian, data).unwrap_or_default()
        };
        Some(Elf { endian, data, segments, sections })
    }

    /// Whether the lowest byte of a number comes first.
    pub fn is_little_endian(&self) -> bool {
        self.endian == Endianness::Little
    }

    /// The loaded segments, each as its address, its offset in the file, its bytes in the file, and its bytes in memory.
    pub fn loaded(&self) -> impl Iterator<Item = [u64; 4]> + '_ {
        let endian = self.endian;
        let of_type = move |segment: &&ProgramHeader64<Endianness>| segment.p_type(endian) == PT_LOAD;
        self.segments.iter().filter(of_type).map(move |segment| {
            [segment.p_vaddr(endian), segment.p_offset(endian), segment.p_filesz(endian), segment.p_memsz(endian)]
        })
    }

    /// Bytes of thread-local storage.
    pub fn thread_local(&self) -> u64 {
        let tls = self.segments.iter().find(|segment| segment.p_type(self.endian) == elf::PT_TLS);
        tls.map_or(0, |segment| segment.p_memsz(self.endian))
    }

    /// The address of the first segment, rounded down to a page.
    pub fn lowest(&self) -> Option<u64> {
        self.loaded().map(|[address, ..]| address / PAGE * PAGE).min()
    }

    /// The end of the last segment in memory, rounded up to a page.
    pub fn highest(&self) -> Option<u64> {
        let end = |[address, _, _, bytes]: [u64; 4]| address.checked_add(bytes)?.checked_next_multiple_of(PAGE);
        self.loaded().filter_map(end).max()
    }

    /// The address of the code at this offset in the file. Two segments can contain the same page of the file: only executable ones count.
    pub fn code_at(&self, place: u64) -> Option<u64> {
        let endian = self.endian;
        let is_code = |segment: &&ProgramHeader64<Endianness>| {
            segment.p_type(endian) == PT_LOAD && segment.p_flags(endian).0 & elf::PF_X.0 != 0
        };
        self.segments.iter().filter(is_code).find_map(|segment| {
            let (address, from) = (segment.p_vaddr(endian), segment.p_offset(endian));
            let within = place.checked_sub(from / PAGE * PAGE)?;
            let end = segment.p_filesz(endian).checked_add(from % PAGE)?;
            (address / PAGE * PAGE).checked_add(within).filter(|_| within < end)
        })
    }

    /// The build-id; empty if the file has none.
    pub fn build_id(&self) -> Vec<u8> {
        let notes = self.segments.iter().filter(|segment| segment.p_type(self.endian) == PT_NOTE);
        let small = notes.filter(|segment| segment.p_filesz(self.endian) <= MOST_OF_NOTES);
        let of = |segment: &ProgramHeader64<Endianness>| {
            let mut notes = segment.notes(self.endian, self.data).ok()??;
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(self.endian) == elf::NT_GNU_BUILD_ID {
                    return Some(note.desc().to_vec());
                }
            }
            None
        };
        small.filter_map(of).next().unwrap_or_default()
    }

    /// The section with this name. `None` if there is none.
    pub fn section(&self, name: &str) -> Option<ElfSection> {
        let (_, header) = self.sections.section_by_name(self.endian, name.as_bytes())?;
        let flags = header.sh_flags(self.endian);
        Some(ElfSection {
            offset: header.sh_offset(self.endian),
            bytes: header.sh_size(self.endian),
            address: header.sh_addr(self.endian),
            is_compressed: flags.contains(elf::SHF_COMPRESSED),
        })
    }

    /// The bytes of a section that is not compressed. `None` if there is none, or if it has more bytes than this.
    pub fn bytes(&self, name: &str, most: u64) -> Option<(ElfSection, &'a [u8])> {
        let section = self.section(name).filter(|section| !section.is_compressed && section.bytes <= most)?;
        Some((section, self.data.read_bytes_at(section.offset, section.bytes).ok()?))
    }

    /// All bytes of a section, decompressed. They bypass the cache, since a large section would otherwise be in memory twice. `None` if
    /// there is no such section, or it cannot be read. If it has more than `most` bytes, the error is their number.
    pub fn whole(&self, opened: &Opened, name: &str, most: u64) -> Result<Option<Vec<u8>>, u64> {
        let Some((_, header)) = self.sections.section_by_name(self.endian, name.as_bytes()) else { return Ok(None) };
        if header.sh_type(self.endian) == elf::SHT_NOBITS {
            return Ok(None);
        }
        let compression = header.compression(self.endian, self.data).ok().flatten();
        let (offset, stored, bytes) = match compression {
            None => {
                let bytes = header.sh_size(self.endian);
                (header.sh_offset(self.endian), bytes, bytes)
            }
            Some((header, offset, stored)) => (offset, stored, header.ch_size(self.endian)),
        };
        // A section beyond the end of the file is damage.
        if offset.checked_add(stored).is_none_or(|end| end > opened.stamp.bytes) {
            return Ok(None);
        }
        if bytes.max(stored) > most {
            return Err(bytes.max(stored));
        }
        let mut data = vec![0; stored as usize];
        if opened.file.read_exact_at(&mut data, offset).is_err() {
            return Ok(None);
        }
        let format = match compression.map(|(header, ..)| header.ch_type(self.endian)) {
            None => return Ok(Some(data)),
            Some(elf::ELFCOMPRESS_ZLIB) => CompressionFormat::Zlib,
            Some(elf::ELFCOMPRESS_ZSTD) => CompressionFormat::Zstandard,
            Some(_) => return Ok(None),
        };
        let compressed = CompressedData { format, data: &data, uncompressed_size: bytes };
        Ok(compressed.decompress().ok().map(std::borrow::Cow::into_owned))
    }

    /// The symbols of a table. The error says why there are none.
    pub fn symbols(&self, which: SymbolSection) -> Result<impl Iterator<Item = Symbol<'a>> + use<'a, R>, String> {
        let kind = if which == SymbolSection::Full { SHT_SYMTAB } else { SHT_DYNSYM };
        let endian = self.endian;
        let header = self.sections.iter().find(|section| section.sh_type(endian) == kind);
        if let Some(bytes) = header.map(|header| header.sh_size(endian)).filter(|bytes| *bytes > MOST) {
            return Err(format!("its table of symbols has {} MiB, wanted at most {} MiB", bytes >> 20, MOST >> 20));
        }
        let table: SymbolTable<'a, FileHeader64<Endianness>, R> = self
            .sections
            .symbols(endian, self.data, kind)
            .map_err(|error| format!("its table of symbols cannot be read: {error}"))?;
        let strings = table.strings();
        Ok(table.symbols().iter().filter_map(move |symbol| {
            let kind = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => SymbolKind::Function,
                elf::STT_OBJECT => SymbolKind::Variable,
                elf::STT_FILE => SymbolKind::File,
                _ => SymbolKind::Other,
            };
            let name = str::from_utf8(symbol.name(endian, strings).ok()?).ok()?;
            Some(Symbol {
                name,
                address: symbol.st_value(endian),
                bytes: symbol.st_size(endian),
                kind,
                is_defined: kind == SymbolKind::File || !symbol.is_undefined(endian),
                is_local: symbol.is_local(),
            })
        }))
    }
}

/// A section of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfSection {
    /// Its place in the file.
    pub offset: u64,
    /// Its length there in bytes.
    pub bytes: u64,
    /// Its address as written in the file.
    pub address: u64,
    /// Whether its bytes are compressed.
    pub is_compressed: bool,
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// The compiler may put a test into its caller. Then it has no symbol.
    #[inline(never)]
    fn of_its_own() {}

    #[test]
    fn this_program_has_what_its_compiler_wrote() {
        let opened = Opened::of(File::open("/proc/self/exe").unwrap()).unwrap();
        let data = cache(&opened);
        let elf = Elf::of(&data).unwrap();
        assert!(elf.lowest().is_some() && elf.loaded().count() >= 2 && elf.section(".text").is_some());
        let mut symbols = elf.symbols(SymbolSection::Full).unwrap();
        std::hint::black_box(of_its_own as fn())();
        let own = symbols.find(|symbol| symbol.name.contains("of_its_own")).unwrap();
        assert_eq!(own.kind, SymbolKind::Function);
        assert!(
            elf.symbols(SymbolSection::Dynamic).unwrap().all(|symbol| symbol.name != "malloc" || !symbol.is_defined),
            "it does not export it"
        );
    }

    #[test]
    fn a_table_of_gigabytes_is_not_read() {
        let mut bytes = std::fs::read("/proc/self/exe").unwrap();
        let opened = Opened::of(File::open("/proc/self/exe").unwrap()).unwrap();
        let data = cache(&opened);
        let header = FileHeader64::<Endianness>::parse(&data).unwrap();
        let endian = header.endian().unwrap();
        let sections = header.sections(endian, &data).unwrap();
        let at = sections.iter().position(|section| section.sh_type(endian) == SHT_SYMTAB).unwrap();
        // The word with its size.
        let size = header.e_shoff(endian) as usize + at * 64 + 32;
        bytes[size..size + 8].copy_from_slice(&(3_u64 << 30).to_le_bytes());
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        file.set_len(4 << 30).unwrap();
        let opened = Opened::of(file).unwrap();
        let data = cache(&opened);
        let elf = Elf::of(&data).unwrap();
        let said = elf.symbols(SymbolSection::Full).err().unwrap();
        assert_eq!(said, "its table of symbols has 3072 MiB, wanted at most 64 MiB");
        assert!(elf.symbols(SymbolSection::Dynamic).is_ok());
    }

    #[test]
    fn what_is_no_elf_file_is_none() {
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01"] {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(bytes, 0).unwrap();
            let opened = Opened::of(file).unwrap();
            assert!(Elf::of(&cache(&opened)).is_none());
        }
    }
}
