//! Reads from an ELF file what the loader needs to know: the machine, the loader, the names of its libraries, and the folders where it
//! wants them to be searched.
//!
//! Only 64-bit files in this machine's byte order are read. All lengths are limited, because the file may be hostile.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What an ELF file says about how it is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The machine: a number of the ELF format.
    pub machine: u16,
    /// Whether it can be mapped at any address, as all libraries can.
    pub is_movable: bool,
    /// The path of its loader.
    pub interpreter: Option<PathBuf>,
    /// The names of its libraries, in their order.
    pub libraries: Vec<OsString>,
    /// Its own name as a library.
    pub name: Option<OsString>,
    /// Its list of folders for its own libraries and for theirs.
    pub rpath: Option<OsString>,
    /// Its list of folders for its own libraries. The other list is then ignored.
    pub runpath: Option<OsString>,
    /// Whether its libraries are not searched in the loader's usual folders.
    pub not_usual: bool,
    /// The size of the parts that are loaded, in bytes.
    pub loaded: u64,
    /// The offset where the last loaded part ends in the file.
    pub end: u64,
}

/// The kernel starts no program with a longer table of program headers.
const HEADERS: usize = 65_536;
/// The greatest length of the dynamic table in bytes. It has 16 bytes for each library.
const DYNAMIC: usize = 32_768;
/// The greatest length of one text, and of all texts of a file.
const TEXT: usize = 16_384;
const TEXTS: usize = 32_768;
/// Most texts are shorter than this.
const SHORT: usize = 256;

const HEADER: usize = 56;
const ENTRY: usize = 16;

const ET_DYN: u64 = 3;
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_NODEFLIB: u64 = 0x800;

/// Reads a file. `at` returns the bytes at an offset: at most as many as requested, and fewer at the end of the file. `None` if it is not a
/// 64-bit ELF file in this machine's byte order.
pub fn needs(at: impl Fn(u64, usize) -> Vec<u8>) -> Option<Needs> {
    let head = at(0, 64);
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    if head.len() < 64 || !head.starts_with(b"\x7fELF") || head[4..6] != [2, order] {
        return None;
    }
    let mut found = Needs {
        machine: u16::try_from(number(&head, 18, 2)?).ok()?,
        is_movable: number(&head, 16, 2)? == ET_DYN,
        ..Needs::default()
    };
    let (from, size, count) = (number(&head, 32, 8)?, number(&head, 54, 2)?, number(&head, 56, 2)?);
    let length = HEADER * count as usize;
    if size != HEADER as u64 || length > HEADERS {
        return Some(found);
    }
    let headers = at(from, length);
    let parts: Vec<Part> = headers.chunks_exact(HEADER).filter_map(Part::of).collect();
    let loaded: Vec<&Part> = parts.iter().filter(|part| part.kind == PT_LOAD).collect();
    found.loaded = loaded.iter().fold(0, |sum: u64, part| sum.saturating_add(part.length));
    found.end = loaded.iter().map(|part| part.from.saturating_add(part.length)).max().unwrap_or(0);
    if let Some(part) = parts.iter().find(|part| part.kind == PT_INTERP) {
        let path = at(part.from, usize::try_from(part.length).map_or(TEXT, |length| length.min(TEXT)));
        found.interpreter = text(&path).map(PathBuf::from);
    }
    let Some(dynamic) = parts.iter().find(|part| part.kind == PT_DYNAMIC) else { return Some(found) };
    let table = at(dynamic.from, usize::try_from(dynamic.length).map_or(DYNAMIC, |length| length.min(DYNAMIC)));
    let entries = table.chunks_exact(ENTRY).filter_map(|entry| Some((number(entry, 0, 8)?, number(entry, 8, 8)?)));
    let entries: Vec<(u64, u64)> = entries.take_while(|(tag, _)| *tag != 0).collect();
    let texts = entries.iter().find(|(tag, _)| *tag == DT_STRTAB).map_or(0, |(_, address)| *address);
    let mut left = TEXTS;
    for (tag, value) in entries {
        if tag == DT_FLAGS_1 {
            found.not_usual = value & DF_1_NODEFLIB != 0;
        }
        if ![DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH].contains(&tag) {
            continue;
        }
        let address = texts.saturating_add(value);
        let Some(place) = loaded.iter().find_map(|part| part.place(address)) else { continue };
        let Some(text) = text(&at(place, SHORT)).or_else(|| text(&at(place, TEXT))) else { continue };
        let Some(rest) = left.checked_sub(text.len() + 1) else { break };
        left = rest;
        match tag {
            DT_NEEDED => found.libraries.push(text),
            DT_SONAME => found.name = Some(text),
            DT_RPATH => found.rpath = Some(text),
            _ => found.runpath = Some(text),
        }
    }
    Some(found)
}

/// A program header.
struct Part {
    kind: u64,
    /// Where it is in the file.
    from: u64,
    /// Its address in memory.
    address: u64,
    /// Its length in the file.
    length: u64,
}

impl Part {
    fn of(header: &[u8]) -> Option<Part> {
        let word = |at| number(header, at, 8);
        Some(Part { kind: number(header, 0, 4)?, from: word(8)?, address: word(16)?, length: word(32)? })
    }

    /// The file offset of an address.
    fn place(&self, address: u64) -> Option<u64> {
        let within = address.checked_sub(self.address).filter(|within| *within < self.length)?;
        self.from.checked_add(within)
    }
}

/// A number of at most eight bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + length)?;
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    Some(if cfg!(target_endian = "little") { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) })
}

/// The text up to a NUL.
fn text(bytes: &[u8]) -> Option<OsString> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(OsStr::from_bytes(&bytes[..end]).to_os_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Option<Needs> {
        needs(|at, length| {
            let rest = bytes.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
            rest[..length.min(rest.len())].to_vec()
        })
    }

    /// A library whose texts begin 0x1000 higher in memory than in the file.
    fn made(entries: &[(u64, u64)], texts: &[u8]) -> Vec<u8> {
        let mut out = b"\x7fELF\x02".to_vec();
        out.push(if cfg!(target_endian = "little") { 1 } else { 2 });
        out.resize(64, 0);
        let put = |out: &mut Vec<u8>, at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(&mut out, 16, &3_u16.to_ne_bytes());
        put(&mut out, 18, &62_u16.to_ne_bytes());
        put(&mut out, 32, &64_u64.to_ne_bytes());
        put(&mut out, 54, &56_u16.to_ne_bytes());
        put(&mut out, 56, &3_u16.to_ne_bytes());
        let dynamic = 64 + 3 * HEADER;
        let strings = dynamic + (entries.len() + 2) * ENTRY;
        let interpreter = strings + texts.len();
        let loader = b"/lib/ld.so\0";
        let all = interpreter + loader.len();
        for (kind, from, length) in [(1_u32, 0, all), (2, dynamic, strings - dynamic), (3, interpreter, loader.len())] {
            out.extend(kind.to_ne_bytes());
            out.extend(0_u32.to_ne_bytes());
            for word in [from, from + 0x1000, 0, length, length, 0] {
                out.extend((word as u64).to_ne_bytes());
            }
        }
        for (tag, value) in entries.iter().copied().chain([(DT_STRTAB, strings as u64 + 0x1000), (0, 0)]) {
            out.extend(tag.to_ne_bytes());
            out.extend(value.to_ne_bytes());
        }
        out.extend(texts);
        out.extend(loader);
        out
    }

    #[test]
    fn a_library_says_what_it_needs() {
        let entries = [(1, 0), (1, 5), (14, 10), (15, 15), (29, 20), (DT_FLAGS_1, DF_1_NODEFLIB)];
        let bytes = made(&entries, b"a.so\0b.so\0c.so\0/rpa\0/run\0");
        let found = of(&bytes).unwrap();
        let wanted = Needs {
            machine: 62,
            is_movable: true,
            interpreter: Some("/lib/ld.so".into()),
            libraries: vec!["a.so".into(), "b.so".into()],
            name: Some("c.so".into()),
            rpath: Some("/rpa".into()),
            runpath: Some("/run".into()),
            not_usual: true,
            loaded: bytes.len() as u64,
            end: bytes.len() as u64,
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_torn_or_changed_file_says_less() {
        let bytes = made(&[(1, 0), (1, 5), (29, 1 << 40), (14, u64::MAX)], b"a.so\0b.so\0");
        assert_eq!(of(&bytes).unwrap().libraries.len(), 2);
        for length in 0..bytes.len() {
            assert!(of(&bytes[..length]).is_none_or(|found| found.libraries.len() <= 2));
        }
        for at in 6..bytes.len() {
            for value in [0, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = of(&changed);
            }
        }
        let mut of_32_bits = bytes.clone();
        of_32_bits[4] = 1;
        assert_eq!((of(&of_32_bits), of(b"#!/bin/sh\n")), (None, None));
    }

    /// Each of a table's names could be the same long text.
    #[test]
    fn all_texts_together_are_limited() {
        let long = [&[b'x'; 10_000][..], b"\0"].concat();
        let found = of(&made(&[(1, 0); 1000], &long)).unwrap();
        assert_eq!(found.libraries.len(), TEXTS / 10_000);
        let bytes = made(&[(1, 0); 2500], b"a\0");
        assert_eq!(of(&bytes).unwrap().libraries.len(), 0, "the address of the texts is beyond the limit");
    }

    #[test]
    fn this_program_needs_a_c_library() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let found = of(&bytes).unwrap();
        assert!(found.libraries.iter().any(|name| name.to_string_lossy().contains("libc.")), "{found:?}");
        assert!(found.loaded > 0 && found.interpreter.is_some());
    }
}
