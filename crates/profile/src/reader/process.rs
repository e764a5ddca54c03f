//! The memory of a process, as the reader needs it. In: what reads it. Out: words, and the tables that beacons lead to.

use std::time::Instant;

pub use allocanary_sys::proc::Mapping;
use allocanary_sys::proc::{maps, parse_maps};

use super::trouble::ProfileTrouble;
use crate::layout::{MARK, table_of};

/// The most tables that are looked at. A process has one for each library that profiles it; any data may look like a mark.
pub const MOST_TABLES: usize = 64;
/// The most bytes of writable data in which beacons are looked for.
const MOST_DATA: u64 = 1 << 30;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
const PAGE: u64 = 4096;

/// The memory of a process. Only pages that are present are read: reading others of a mapped file makes the kernel wait
/// for its file system, and the process's own `mmap` with it.
pub trait ProcessMemory {
    /// Its number.
    fn pid(&self) -> u32;

    /// Its mappings, in the order of their addresses.
    fn mappings(&self) -> Vec<Mapping>;

    /// The ranges of a range that are present.
    fn present(&self, from: u64, to: u64) -> Vec<(u64, u64)>;

    /// Copies bytes. Returns whether all were copied. Of memory without a file, a page that was never used reads as
    /// zeros.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;
}

/// The tables, by their addresses: those that are found by then.
pub(super) fn tables(source: &dyn ProcessMemory, mappings: &[Mapping], until: Option<Instant>) -> Vec<u64> {
    // The data of a program or a library, which is the beginning of what it can write.
    let is_data = |one: &&Mapping| one.writable && !one.shared && one.inode != 0;
    let (mut found, mut read, mut piece) = (Vec::new(), 0, vec![0; PIECE + MARK.len() + 8]);
    for data in mappings.iter().filter(is_data) {
        for (from, to) in source.present(data.from, data.to) {
            let mut at = from;
            while at < to
                && read < MOST_DATA
                && found.len() < MOST_TABLES
                && until.is_none_or(|until| Instant::now() < until)
            {
                let length = (to - at).min(piece.len() as u64) as usize;
                if source.read(at, &mut piece[..length]) {
                    for start in (0..length.min(PIECE)).step_by(MARK.len()) {
                        found.extend(table_of(&piece[start..length]));
                    }
                }
                let step = (length as u64).min(PIECE as u64).next_multiple_of(PAGE);
                (at, read) = (at + step, read + step);
            }
        }
    }
    found.truncate(MOST_TABLES);
    found.sort_unstable();
    found.dedup();
    found
}

/// Words from an address on.
pub(super) fn words(source: &dyn ProcessMemory, at: u64, count: usize) -> Option<Vec<u64>> {
    let mut bytes = vec![0; count * 8];
    let whole = source.read(at, &mut bytes);
    whole.then(|| bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// The mappings of this process, in the order of their addresses.
pub fn own_mappings() -> Result<Vec<Mapping>, ProfileTrouble> {
    let (pid, what) = (std::process::id(), "its mappings cannot be read");
    maps::own().map(parse_maps).map_err(|error| ProfileTrouble::Unreadable { pid, what, error })
}
