//! The tables of a file that a process has mapped. In: a way to read the file, and one of its mappings. Out: rules for addresses of
//! the process.

use super::CodeMapping;
use crate::bytes::Bytes;
use crate::frames;
use crate::rule::CallerRule;

/// The largest page that a kernel of this machine can have. A mapping begins at a page.
const PAGE: u64 = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4 << 10 };

/// The maximum number of program headers of a file.
const HEADERS: usize = 256;

// Kinds of program headers.
const LOAD: u32 = 1;
const EH_FRAME: u32 = 0x6474_e550;
/// A flag of a program header.
const EXECUTABLE: u32 = 1;

/// A program header: a part of the file, and its address in memory.
#[derive(Clone, Copy)]
struct Part {
    kind: u32,
    is_code: bool,
    offset: u64,
    address: u64,
    bytes: u64,
}

pub(super) struct Tables {
    /// The part of the file with the tables.
    bytes: Vec<u8>,
    /// Its address in the process.
    address: u64,
    /// The address of `.eh_frame_hdr` in the process.
    header: u64,
}

impl Tables {
    /// Reads the tables. `file` copies bytes of the file from an offset, and returns whether it could copy all. `None` if the file
    /// has no tables, or if they have more than `most` bytes.
    pub(super) fn read(file: &dyn Fn(u64, &mut [u8]) -> bool, code: &CodeMapping, most: u64) -> Option<Tables> {
        let parts = parts(file)?;
        let loads = || parts.iter().filter(|part| part.kind == LOAD);
        let end = |part: &Part| part.offset.saturating_add(part.bytes);
        // Two segments may share a page of the file, as lld links them. The mapping has code, so its segment must have
        // code too.
        let has_it = |part: &&Part| part.is_code && part.offset / PAGE * PAGE <= code.offset && code.offset < end(part);
        let mut mapped = loads().filter(has_it);
        // If both segments in a page have code, nothing shows which of them is mapped.
        let (mapped, None) = (mapped.next()?, mapped.next()) else { return None };
        // An address in the process minus the address of the same byte in the file.
        let bias = code.from.wrapping_sub(mapped.address).wrapping_sub(code.offset).wrapping_add(mapped.offset);
        let header = parts.iter().find(|part| part.kind == EH_FRAME)?;
        let with = loads().find(|part| header.address.wrapping_sub(part.address) < part.bytes)?;
        // Linkers put the tables after the header. The bytes before it in the segment, such as names of symbols, are not read.
        let before = header.address - with.address;
        let mut begin = [0; 8];
        file(with.offset.checked_add(before)?, &mut begin).then_some(())?;
        let skipped = if is_followed(&begin) { before } else { 0 };
        let size = usize::try_from(with.bytes - skipped).ok().filter(|size| *size as u64 <= most)?;
        let mut bytes = vec![0; size];
        file(with.offset.checked_add(skipped)?, &mut bytes).then_some(())?;
        let address = with.address.wrapping_add(skipped).wrapping_add(bias);
        Some(Tables { bytes, address, header: header.address.wrapping_add(bias) })
    }

    /// The size of the tables, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The rule of an address of the process.
    pub(super) fn rule(&self, pc: u64) -> CallerRule {
        let tables = frames::Tables { bytes: &self.bytes, address: self.address, header: self.header };
        if cfg!(target_arch = "aarch64") { tables.aarch64(pc) } else { tables.rule(pc).into() }
    }
}

/// Whether the tables are after a header that begins with these bytes. The header's version must be 1, and it must have the distance to the
/// tables as a signed number of four bytes (0x1b).
fn is_followed(header: &[u8; 8]) -> bool {
    let [version, form, _, _, distance @ ..] = header;
    (*version, *form) == (1, 0x1b) && i32::from_le_bytes(*distance) > 0
}

/// The program headers of a 64-bit file.
fn parts(file: &dyn Fn(u64, &mut [u8]) -> bool) -> Option<Vec<Part>> {
    let mut head = [0; 64];
    file(0, &mut head).then_some(())?;
    if head[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let at = Bytes::from(&head, 32).u64()?;
    let (each, count) = (Bytes::from(&head, 54).u16()?, Bytes::from(&head, 56).u16()?);
    let count = usize::from(count).min(HEADERS);
    if each != 56 {
        return None;
    }
    let mut bytes = vec![0; count * 56];
    file(at, &mut bytes).then_some(())?;
    let part = |entry: &[u8]| {
        let word = |from: usize| Bytes::from(entry, from).u64();
        let kind = Bytes::from(entry, 0).u32()?;
        let is_code = Bytes::from(entry, 4).u32()? & EXECUTABLE != 0;
        Some(Part { kind, is_code, offset: word(8)?, address: word(16)?, bytes: word(32)? })
    };
    bytes.as_chunks::<56>().0.iter().map(|entry| part(entry)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This is how lld links a program. The segment with the tables ends in the same page of the file in which the
    /// code's segment begins. In memory, the code is a page further.
    #[test]
    fn two_parts_in_a_page_of_the_file_are_told_apart() {
        let mut bytes = vec![0; 0x3000];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&3_u16.to_le_bytes());
        let parts = [
            (LOAD, 4_u32, 0_u64, 0_u64, 0x1220_u64),
            (LOAD, 5, 0x1220, 0x2220, 0x500),
            (EH_FRAME, 4, 0x100, 0x100, 0x20),
        ];
        for (at, (kind, flags, offset, address, size)) in parts.into_iter().enumerate() {
            let entry = &mut bytes[64 + at * 56..][..56];
            entry[..4].copy_from_slice(&kind.to_le_bytes());
            entry[4..8].copy_from_slice(&flags.to_le_bytes());
            entry[8..16].copy_from_slice(&offset.to_le_bytes());
            entry[16..24].copy_from_slice(&address.to_le_bytes());
            entry[32..40].copy_from_slice(&size.to_le_bytes());
        }
        let file = |at: u64, into: &mut [u8]| {
            bytes
                .get(at as usize..)
                .and_then(|rest| rest.get(..into.len()))
                .map(|found| into.copy_from_slice(found))
                .is_some()
        };
        let tables =
            Tables::read(&file, &CodeMapping { from: 0x7000_2000, to: 0x7000_3000, offset: 0x1000 }, 1 << 20).unwrap();
        assert_eq!((tables.address, tables.header), (0x7000_0000, 0x7000_0100));
    }

    #[test]
    fn what_is_before_the_header_is_read_only_if_the_tables_are_there() {
        assert!(is_followed(&[1, 0x1b, 3, 0x3b, 0x24, 0, 0, 0]));
        assert!(!is_followed(&[1, 0x1b, 3, 0x3b, 0, 0, 0, 0x80]), "the tables are before it");
        assert!(!is_followed(&[1, 0x03, 3, 0x3b, 0x24, 0, 0, 0]), "another form");
    }
}
