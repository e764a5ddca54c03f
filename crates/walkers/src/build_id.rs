//! The build-id of a mapped file. Distributions find the debug symbols of a file by this text.

use crate::{Mapping, Memory};

/// At most this many bytes of a notes segment are read.
const MOST: u64 = 4096;

/// The build-id of a file, as hexadecimal digits. `file` is the mapping of its beginning. `None` if it has no build-id.
pub fn of(memory: &dyn Memory, file: &Mapping) -> Option<String> {
    const NOTE: u32 = 4;
    let half = |at: u64| Some((memory.word(at)? & 0xffff) as u16);
    let headers = file.from.checked_add(memory.word(file.from + 32)?)?;
    let (size, count) = (u64::from(half(file.from + 54)?), u64::from(half(file.from + 56)?));
    (0..count).find_map(|at| {
        let header = headers.checked_add(at * size)?;
        if memory.word(header)? as u32 != NOTE {
            return None;
        }
        let (offset, length) = (memory.word(header + 8)?, memory.word(header + 32)?);
        let mut notes = vec![0; length.min(MOST) as usize];
        memory.read(file.from.checked_add(offset)?, &mut notes).then(|| in_notes(&notes))?
    })
}

/// The build-id among notes.
fn in_notes(mut notes: &[u8]) -> Option<String> {
    const BUILD_ID: u32 = 3;
    loop {
        let number = |at: usize| Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?));
        let (name, text, kind) = (number(0)? as usize, number(4)? as usize, number(8)?);
        let from = 12_usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let to = from.checked_add(text)?;
        if kind == BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" {
            return Some(notes.get(from..to)?.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(from.checked_add(text.checked_next_multiple_of(4)?)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let note = |kind: u8, text: &[u8]| {
            let mut note = vec![4, 0, 0, 0, text.len() as u8, 0, 0, 0, kind, 0, 0, 0];
            note.extend(b"GNU\0");
            note.extend(text);
            note.resize(note.len().next_multiple_of(4), 0);
            note
        };
        let notes = [note(1, b"abcde"), note(3, &[0xab, 0x01])].concat();
        assert_eq!(in_notes(&notes).as_deref(), Some("ab01"));
        assert_eq!(in_notes(&note(1, b"abcde")), None);
        assert_eq!(in_notes(&[0xff; 40]), None, "lengths beyond the end");
    }
}
