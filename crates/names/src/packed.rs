//! MiniDebugInfo: the symbols of functions that Fedora's stripped files have in a section, packed by xz. In: a file. Out: an ELF file
//! with a table of symbols.

use std::io::Read;

use allocanary_process::elf::{Elf, ReadRef};
use lzma_rust2::XzReader;

/// The most bytes of the section, and of what is unpacked. Fedora's files have some MiB; a stranger's file may be made to fill the memory.
const MOST: u64 = 32 << 20;
/// The most memory of the decompressor in KiB. The highest level of xz needs 64 MiB.
const MOST_KIB: u32 = 66 << 10;

/// The unpacked section; `None` if the file has none. The error says why it is not read.
pub(crate) fn unpacked<'a>(elf: &Elf<'a, impl ReadRef<'a>>) -> Result<Option<Vec<u8>>, String> {
    let Some((_, packed)) = elf.bytes(".gnu_debugdata", MOST) else { return Ok(None) };
    let mut out = Vec::new();
    let read = XzReader::new_mem_limit(packed, false, MOST_KIB).take(MOST + 1).read_to_end(&mut out);
    read.map_err(|error| format!("its packed symbols (.gnu_debugdata) cannot be read: {error}"))?;
    if out.len() as u64 > MOST {
        return Err(format!("its packed symbols (.gnu_debugdata) have more than {} MiB", MOST >> 20));
    }
    Ok(Some(out))
}
