//! The table of another process, or of this one. In: a process's number. Out: its samples, the frames of their stacks, its files.
//!
//! Nothing is stopped, no signal is sent and no thread is made: the kernel copies the table. The process writes to it meanwhile, so a
//! sample may be half of one block and half of another; that is one sample of thousands. What is read may be anything: every size has a
//! limit, and stacks that lead in a circle end.

mod decode;
mod limits;
mod process;
mod trouble;

use std::time::Instant;

use crate::layout::{HEADER, MAGIC, MOST_PLACES, OF_FRAME, OF_SAMPLE, VERSION, word};
pub use decode::{RawFrame, SampledBlock, TableCounts, TableProfile};
pub use process::{MOST_TABLES, Mapping, ProcessMemory, own_mappings};
pub use trouble::{ProfileTrouble, Wrong};

/// Reads the profile of a process. If several libraries profile it, the one with the most samples is taken.
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

/// Whether a process has a profile, or several. `None` if that is not known by then.
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

/// The profile in a table. `words` reads so many words from an address on.
pub fn of_table(
    pid: u32,
    at: u64,
    words: impl Fn(u64, usize) -> Option<Vec<u64>>,
) -> Result<TableProfile, ProfileTrouble> {
    let wrong = |what| ProfileTrouble::Damaged { pid, what };
    let header = words(at, HEADER).filter(|header| header.len() == HEADER).ok_or(wrong(Wrong::Unread))?;
    if header[word::MAGIC] != MAGIC {
        // A fork's child begins its table at its first sample.
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
    // Samples first: the frames that they name are there by then.
    let samples = part(word::SAMPLES, word::SAMPLES_AT, OF_SAMPLE)?;
    let frames = part(word::FRAMES, word::FRAMES_AT, OF_FRAME)?;
    Ok(decode::profile(pid, &header, &samples, &frames))
}
