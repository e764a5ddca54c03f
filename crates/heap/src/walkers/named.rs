//! An allocator that is in the process by its library's name, and whose layout no walker knows. In: a memory. Out: the file, and its
//! build-id, by which its release is found.

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

/// The build-id of the ELF file that is mapped at an address: the note of type 3 by `GNU`, in a segment of type 4.
fn build_id(memory: &dyn Memory, at: u64) -> Option<String> {
    let number = |from: u64, bytes: usize| {
        let mut word = [0; 8];
        memory.read(at.checked_add(from)?, &mut word[..bytes]).then(|| u64::from_le_bytes(word))
    };
    if number(0, 4)? != 0x464c_457f {
        return None;
    }
    let (table, count) = (number(32, 8)?, number(56, 2)?.min(64));
    for header in (0..count).map(|index| table.saturating_add(56 * index)) {
        if number(header, 4)? != 4 {
            continue;
        }
        let (note, bytes) = (number(header.checked_add(16)?, 8)?, number(header.checked_add(32)?, 8)?.min(4096));
        let mut from = 0;
        while from + 12 <= bytes {
            let field = |offset: u64, bytes| number(note.checked_add(from + offset)?, bytes);
            let (name, length, kind) = (field(0, 4)?, field(4, 4)?, field(8, 4)?);
            if name == 4 && kind == 3 && field(12, 4)? == u64::from(u32::from_le_bytes(*b"GNU\0")) {
                let byte = |index| field(16 + index, 1).map(|byte| format!("{byte:02x}"));
                return Some(format!("build-id {}", (0..length.min(64)).map(byte).collect::<Option<String>>()?));
            }
            from += 12 + name.next_multiple_of(4) + length.next_multiple_of(4);
        }
    }
    None
}
