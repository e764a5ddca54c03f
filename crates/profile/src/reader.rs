//! The table of another process, or of this one. In: a process's number. Out: its samples, the frames of their stacks, its files.
//!
//! The reader stops no process, sends no signal and starts no thread, because the kernel copies the table. Meanwhile the process writes to
//! the table, so a sample may be half of one block and half of another; this affects one sample of thousands. The table may contain
//! anything: every size has a limit, and a stack that leads in a circle ends.

mod decode;
mod limits;
mod process;
mod trouble;

use std::time::Instant;

use crate::layout::{HEADER, MAGIC, MOST_PLACES, OF_FRAME, OF_SAMPLE, VERSION, word};
pub use decode::{RawFrame, SampledBlock, TableCounts, TableProfile};
pub use process::{MOST_TABLES, Mapping, ProcessMemory, own_mappings};
pub use trouble::{ProfileTrouble, Wrong};

/// Reads the profile of a process. If several libraries profile it, the table with the most samples is taken.
pub fn read(source: &dyn ProcessMemory) -> Result<TableProfile, ProfileTrouble> {
    let (pid, mappings) = (source.pid(), source.mappings());
    let tables = process::tables(source, &mappings, None);
    let several = tables.len();
    let mut best: Option<Result<TableProfile, ProfileTrouble>> = None;
    for found in tables.into_iter().map(|table| of_table(pid, table, |at, count| process::words(source, at, count))) {
        let samples = |one: &Result<TableProfile, ProfileTrouble>| one.as_ref().map_or(0, |one| one.counts.sampled + 1);
        if best.as_ref().is_none_or(|best| samples(best) < samples(&found)) {
            best = Some(found);
        }
    }
    let mut profile = best.unwrap_or(Err(ProfileTrouble::None(pid)))?;
    profile.tables = several;
    profile.mappings = mappings;
    Ok(profile)
}

/// Whether a process has a profile. `None` if the answer is not known at the time `until`.
pub fn is_profiled(source: &dyn ProcessMemory, until: Option<Instant>) -> Option<bool> {
    let is_table = |at: u64| process::words(source, at, HEADER).is_some_and(|header| header[word::MAGIC] == MAGIC);
    let found = process::tables(source, &source.mappings(), until).into_iter().any(is_table);
    let is_over = until.is_some_and(|until| Instant::now() >= until);
    (found || !is_over).then_some(found)
}

/// The profile in the words of this program's own table: the header, the samples and the frames.
pub fn of_own([header, samples, frames]: &[Vec<u64>; 3]) -> Result<TableProfile, ProfileTrouble> {
    let profile = decode::profile(std::process::id(), header, samples, frames);
    Ok(TableProfile { mappings: own_mappings()?, ..profile })
}

/// Reads the profile in the table at the address `at`. `words` reads a number of words at an address.
pub fn of_table(
    pid: u32,
    at: u64,
    words: impl Fn(u64, usize) -> Option<Vec<u64>>,
) -> Result<TableProfile, ProfileTrouble> {
    let wrong = |what| ProfileTrouble::Damaged { pid, what };
    let header = words(at, HEADER).filter(|header| header.len() == HEADER).ok_or(wrong(Wrong::Unread))?;
    if header[word::MAGIC] != MAGIC {
        // The child of a fork begins its table only at its first sample.
        return Err(ProfileTrouble::None(pid));
    }
    if header[word::VERSION] != VERSION {
        return Err(ProfileTrouble::Version { pid, found: header[word::VERSION] });
    }
    let part = |count: usize, place: usize, of_each: usize| {
        let (count, from) = (header[count], at.checked_add(header[place]));
        let from = from.filter(|_| (1..=MOST_PLACES).contains(&count)).ok_or(wrong(Wrong::Sizes))?;
        words(from, count as usize * of_each).ok_or(wrong(Wrong::Unread))
    };
    // The samples are read first, because all frames that they refer to then exist.
    let samples = part(word::SAMPLES, word::SAMPLES_AT, OF_SAMPLE)?;
    let frames = part(word::FRAMES, word::FRAMES_AT, OF_FRAME)?;
    Ok(decode::profile(pid, &header, &samples, &frames))
}
