//! An allocator that is in the process by its library's name, and whose layout no walker knows. In: a memory. Out: the file, and its
//! build-id, by which its release is found.

use super::elf::{Header, number};
use crate::{Memory, Unknown};

/// Says that the heap could not be divided, if a library with that name is mapped.
pub fn unknown<T>(memory: &dyn Memory, allocator: &'static str, name: &str, known: &str) -> Option<Result<T, Unknown>> {
    let file = memory.mappings().iter().find(|mapping| {
        let file = mapping.name.rsplit('/').next().unwrap_or_default();
        mapping.inode != 0 && file.starts_with("lib") && file.contains(name) && mapping.offset == 0
    })?;
    let build = build_id(memory, file.from).unwrap_or_else(|| "without a build-id".into());
    let reason = format!("layout unknown: wanted that of {known}; found {}, {build}", file.name);
    Some(Err(Unknown { allocator, reason }))
}

/// The build-id of the ELF file that is mapped at an address: the note of type 3 by `GNU`.
fn build_id(memory: &dyn Memory, at: u64) -> Option<String> {
    Header::read(memory, at)?.segments(memory, 4).iter().find_map(|notes| {
        let mut bytes = vec![0; notes.bytes.min(4096) as usize];
        memory.read(at.checked_add(notes.offset)?, &mut bytes).then_some(())?;
        let mut left = &bytes[..];
        while left.len() >= 16 {
            let (name, length, kind) = (number(left, 0, 4), number(left, 4, 4) as usize, number(left, 8, 4));
            if name == 4 && kind == 3 && left[12..16] == *b"GNU\0" {
                let hex = left.get(16..16 + length.min(64))?.iter().map(|byte| format!("{byte:02x}"));
                return Some(format!("build-id {}", hex.collect::<String>()));
            }
            left =
                left.get(12 + (name as usize).next_multiple_of(4) + length.next_multiple_of(4)..).unwrap_or_default();
        }
        None
    })
}
