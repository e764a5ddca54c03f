//! Finds allocators that are linked into a program, by a text that each of them has among its constants. This is only done if no walker has
//! found the heap and much memory is not known, because it reads the whole program.

use crate::{Area, Memory, Reading, Sort};
use allocanary_walkers::texts;

/// `MOST`: the most bytes of constants that are searched. `PIECE`: how many are read at once. `AGAIN`: by how many bytes two pieces
/// overlap, which is more than the longest text.
const MOST: u64 = 256 << 20;
const PIECE: u64 = 1 << 20;
const AGAIN: u64 = 64;
/// Nothing is searched if fewer bytes than `LITTLE` are not known, or less than 1 / `PART` of the resident bytes.
const LITTLE: u64 = 1 << 20;
const PART: u64 = 20;

/// Adds the names to a reading, and a sentence for each.
pub(crate) fn name(reading: &mut Reading, memory: &dyn Memory) {
    let unknown: u64 =
        reading.areas.iter().filter(|area| area.sort == Sort::Unknown).map(|area: &Area| area.resident).sum();
    if unknown < LITTLE || unknown < reading.resident / PART {
        return;
    }
    for (name, path) in found(memory, reading.process.raw_file()) {
        if reading.heaps.iter().any(|heap| heap.allocator == name)
            || reading.undivided.iter().any(|known| known == name)
        {
            continue;
        }
        reading.undivided.push(name.into());
        reading.problems.push(format!(
            "{name}: heap not analysed: it is linked into {path}, and its layout is not known here; it may have the {unknown} bytes that are not \
             known"
        ));
    }
}

/// The allocators whose texts are in the constants of the executable, each with the path of the executable.
fn found<'a>(memory: &'a dyn Memory, executable: &str) -> Vec<(&'static str, &'a str)> {
    let file = |path: &'a str| path.strip_suffix(" (deleted)").unwrap_or(path).rsplit('/').next().unwrap_or_default();
    let constants =
        memory.mappings().iter().filter(|one| one.inode != 0 && one.readable && !one.writable && !one.shared);
    let mut found = Vec::new();
    let (mut left, mut bytes) = (MOST, Vec::new());
    for mapping in constants.filter(|one| file(&one.name) == executable) {
        let mut at = mapping.from;
        while at < mapping.to && left > 0 {
            bytes.resize((PIECE + AGAIN).min(mapping.to - at) as usize, 0);
            if memory.read(at, &mut bytes) {
                for (name, backwards) in texts() {
                    if !found.iter().any(|(known, _)| *known == name) && has(&bytes, backwards) {
                        found.push((name, mapping.name.as_str()));
                    }
                }
            }
            at += PIECE;
            left = left.saturating_sub(PIECE);
        }
    }
    found
}

/// Whether bytes contain a text. The text is given in reverse order.
fn has(bytes: &[u8], backwards: &[u8]) -> bool {
    let (last, rest) = backwards.split_first().expect("no mark is empty");
    let ends = bytes.iter().enumerate().filter(|(_, byte)| *byte == last).map(|(at, _)| at);
    let before = |at: usize| at.checked_sub(rest.len()).is_some_and(|from| bytes[from..at].iter().rev().eq(rest));
    { ends }.any(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KernelCounts, ProcessSubject};
    use allocanary_walkers::fake::FakeMemory;

    fn reading(mark: &[u8], unknown: u64) -> Reading {
        let mut fake = FakeMemory::default();
        fake.map(0x400000, 0x10_1000, false, 7, "/opt/program (deleted)");
        fake.map(0x1000_0000, 4 << 20, true, 0, "");
        fake.touch(0x1000_0000, 0x1000_0000 + unknown);
        // The text begins in one piece and ends in the next.
        let text: Vec<u8> = mark.iter().rev().copied().collect();
        fake.write(0x500000 - 3, &text);
        let fake = fake.done();
        let process = ProcessSubject { executable: "/opt/program".into(), ..ProcessSubject::default() };
        let mut reading =
            Reading::of(process, 0, KernelCounts::default(), &crate::counted::counted_of(&fake), &fake, Vec::new());
        name(&mut reading, &fake);
        reading
    }

    #[test]
    fn what_is_linked_in_and_not_divided_is_named_where_much_is_not_known() {
        for (name, mark) in texts() {
            let found = reading(mark, 2 << 20);
            assert_eq!(found.undivided, [name]);
            assert!(
                found.problems[0].starts_with(&format!("{name}: heap not analysed: it is linked into /opt/program"))
            );
        }
        assert_eq!(reading(b"nothing", 2 << 20).undivided, [""; 0]);
        assert_eq!(reading(texts().next().unwrap().1, 4096).undivided, [""; 0], "a program is not read for a page");
    }
}
