//! Finds the sampled profile of a process, if it has one: the addresses of its table, and of the sampled blocks.
//!
//! The table has the addresses of sampled blocks, and recorded pages of stacks. It must not count as a root: otherwise each sampled block
//! would be reachable, and none would be leaked.

use std::ops::Range;

use allocanary_heap::{Memory, MemoryCopy};
use allocanary_profile::layout::{MARK, table_of};
use allocanary_profile::reader::{MOST_TABLES, ProfileTrouble, of_table};

/// The content of all tables of a process. There are several if several libraries sample it.
#[derive(Debug, Default)]
pub struct ProcessProfile {
    /// Whether there is a table.
    pub is_there: bool,
    /// The address ranges of the tables, which are no roots.
    pub ranges: Vec<Range<u64>>,
    /// The addresses of the blocks that were sampled.
    pub blocks: Vec<u64>,
}

impl ProcessProfile {
    /// Searches the marks that lead to tables.
    pub fn of(copy: &MemoryCopy) -> ProcessProfile {
        let mut profile = ProcessProfile::default();
        for table in tables(copy) {
            let Some(mapping) = copy.mapping(table).filter(|one| one.writable && !one.shared && one.inode == 0) else {
                continue;
            };
            // The whole mapping is the table: its pages are wiped by a fork, so the kernel does not merge it with other memory.
            profile.ranges.push(table..mapping.to);
            let words = |at: u64, count: usize| {
                let mut bytes = vec![0; count * 8];
                let read = copy.read(at, &mut bytes);
                read.then(|| bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
            };
            let found = of_table(0, table, words);
            profile.is_there |= !matches!(found, Err(ProfileTrouble::None(_)));
            profile.blocks.extend(found.iter().flat_map(|found| &found.samples).map(|sample| sample.address));
        }
        // If there are several tables, a large block is in each of them.
        profile.blocks.sort_unstable();
        profile.blocks.dedup();
        profile
    }
}

/// The addresses that marks lead to.
fn tables(copy: &MemoryCopy) -> Vec<u64> {
    let mut found = Vec::new();
    // Marks are in the data of the program or of a library.
    for data in copy.mappings().iter().filter(|one| one.writable && !one.shared && one.inode != 0) {
        let mut at = copy.next(data.from, data.to);
        while at < data.to
            && found.len() < MOST_TABLES
            && let Some(bytes) = copy.bytes(at, data.to - at)
        {
            found.extend((0..bytes.len()).step_by(MARK.len()).filter_map(|place| table_of(&bytes[place..])));
            at = copy.next(at + bytes.len() as u64, data.to);
        }
    }
    found.truncate(MOST_TABLES);
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::FakeHeap;
    use allocanary_profile::layout::{HEADER, MAGIC, VERSION, word};

    const DATA: u64 = 0x10_0000;
    const TABLE: u64 = 0x20_0000;

    fn made(version: u64) -> FakeHeap {
        let mut made = FakeHeap::of(&[(DATA, 0x3000), (DATA + 0x3000, 0x1000), (TABLE, 0x4000)]);
        made.make_file(DATA);
        made.write(DATA + 0x2010, &MARK);
        made.put(DATA + 0x2020, &[TABLE]);
        let mut header = [0; HEADER];
        (header[word::MAGIC], header[word::VERSION]) = (MAGIC, version);
        (header[word::SAMPLES], header[word::SAMPLES_AT]) = (4, 0x1000);
        (header[word::FRAMES], header[word::FRAMES_AT]) = (4, 0x2000);
        made.put(TABLE, &header);
        made.put(TABLE + 0x1010, &[0x7000_0000 | 3 << 48, 100, 0x7100_0000, 200]);
        made
    }

    #[test]
    fn the_table_is_no_root_and_says_which_blocks_were_sampled() {
        let known = made(VERSION);
        let found = ProcessProfile::of(&known.copy());
        let ranges: Vec<(u64, u64)> = found.ranges.iter().map(|range| (range.start, range.end)).collect();
        assert_eq!((found.is_there, &ranges[..]), (true, &[(TABLE, TABLE + 0x4000)][..]));
        assert_eq!(found.blocks, [0x7000_0000, 0x7100_0000]);
        // A table of another version is not read, and holds nothing either.
        let other = made(VERSION + 1);
        let found = ProcessProfile::of(&other.copy());
        assert_eq!((found.is_there, found.ranges.len(), found.blocks.len()), (true, 1, 0));
    }

    #[test]
    fn what_a_mark_leads_to_may_be_anything() {
        let mut hostile = made(VERSION);
        for at in [0, 1, DATA, TABLE + 0x3ff8, u64::MAX] {
            hostile.put(DATA + 0x2020, &[at]);
            let found = ProcessProfile::of(&hostile.copy());
            assert!(!found.is_there || found.blocks.is_empty(), "{at:#x}: {found:?}");
        }
        hostile.put(DATA + 0x2020, &[TABLE]);
        hostile.put(TABLE + 8 * word::SAMPLES as u64, &[1 << 20]);
        assert!(ProcessProfile::of(&hostile.copy()).blocks.is_empty(), "the table ends before its samples do");
    }
}
