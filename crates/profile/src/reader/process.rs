//! The memory of a process, as the reader needs it. In: a way to read the memory. Out: words, and the tables to which beacons lead.

use std::time::Instant;

pub use allocanary_sys::proc::Mapping;
use allocanary_sys::proc::{maps, parse_maps};

use super::trouble::ProfileTrouble;
use crate::layout::{MARK, table_of};

/// The maximum number of tables that are looked at. A process has one for each library that profiles it, but other data may look like a
/// mark.
pub const MOST_TABLES: usize = 64;
/// The maximum number of bytes of writable data in which beacons are searched.
const MOST_DATA: u64 = 1 << 30;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
const PAGE: u64 = 4096;

/// The memory of a process. The reader reads only pages that are present. For other pages of a mapped file, the kernel would wait for the
/// file system, and would make the process's own `mmap` wait too.
pub trait ProcessMemory {
    /// The process's number.
    fn pid(&self) -> u32;

    /// Its mappings, in the order of their addresses.
    fn mappings(&self) -> Vec<Mapping>;

    /// The parts of this range of addresses whose pages are present.
    fn present(&self, from: u64, to: u64) -> Vec<(u64, u64)>;

    /// Copies bytes, and returns whether all were copied. In memory without a file, a page that was never used reads as zeros.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;
}

/// The addresses of all tables that are found before the time `until`.
pub(super) fn tables(source: &dyn ProcessMemory, mappings: &[Mapping], until: Option<Instant>) -> Vec<u64> {
    // The writable data of a program or a library is at the beginning of its writable memory.
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

/// Reads `count` words at an address.
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
