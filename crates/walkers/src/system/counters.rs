//! Reads glibc's own counters without a walk: the bytes that each arena has from the kernel, and the bytes of blocks with their own pages.

use serde::{Deserialize, Serialize};

use super::arenas::{self, Arena, HEADERS, HEAPS, MOST, NEXT};
use super::params::Params;
use super::{release, version};
use crate::counts::{AllocatorCounters, MemoryReader};
use crate::{Memory, PAGE};

/// The places of the counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlibcPlace {
    /// The main arena.
    main: u64,
    /// The distance from an arena's start to its bins.
    bins: u64,
    /// The word with the bytes of mmapped blocks, if the parameters were found.
    mapped: Option<u64>,
}

/// The distance in bytes from an arena's bins to its count of bytes.
const COUNT: usize = 2072;
/// The distance from the bins to the end of this count.
const SPAN: usize = COUNT + 8;

impl GlibcPlace {
    /// Finds the places. `None` if there is no glibc whose malloc was used.
    pub(crate) fn find(memory: &dyn Memory) -> Option<GlibcPlace> {
        let found = arenas::find(memory).into_iter().next()?;
        let main = Arena::read(memory, found.all[0], found.bins)?;
        let releases = release::candidates(found.bins, version::minor(memory, found.data.0)).into_iter();
        let params =
            |release: &'static release::Release| Params::find(memory, found.data, release, main.has_memory(release));
        let mapped = { releases }.find_map(params).map(|params| params.at_mapped());
        Some(GlibcPlace { main: found.all[0], bins: found.bins, mapped })
    }

    /// Reads the present counts.
    pub(crate) fn read(&self, source: &impl MemoryReader) -> Option<AllocatorCounters> {
        let (mut at, mut arenas, mut system) = (self.main, 0, 0_u64);
        loop {
            let mut bytes = [0; SPAN];
            if !source.copy(at.checked_add(self.bins)?, &mut bytes) {
                return None;
            }
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word has eight bytes"));
            let (next, has) = (word(NEXT as usize), word(COUNT));
            arenas += 1;
            system = system.checked_add(has)?;
            if next == self.main {
                break;
            }
            let header = next % HEAPS;
            if !HEADERS.contains(&header) || source.word(next - header) != Some(next) || arenas >= MOST as u64 {
                return None;
            }
            at = next;
        }
        let mmapped = self.mapped.and_then(|at| source.word(at)).filter(|bytes| bytes % PAGE == 0);
        let mapped = mmapped.and_then(|bytes| system.checked_add(bytes));
        Some(AllocatorCounters { arenas, mapped, mmapped, active: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::image::image;
    use super::super::release::ALL;
    use super::*;

    #[test]
    fn the_counters_are_found_and_read_without_a_walk() {
        for release in ALL {
            let (memory, truth) = image(release, false);
            let place = GlibcPlace::find(&memory).unwrap();
            assert_eq!(place.main, truth.main);
            let counters = place.read(&memory).unwrap();
            let walked = super::super::read(&memory).unwrap().unwrap();
            let mapped = walked.system.iter().sum::<u64>() + walked.mmapped_bytes;
            assert_eq!(
                (counters.mapped, counters.mmapped),
                (Some(mapped), Some(walked.mmapped_bytes)),
                "{}",
                release.name
            );
            assert_eq!(counters.arenas, walked.system.len() as u64);
            let elsewhere = GlibcPlace { main: place.main + 8, ..place };
            assert_eq!(elsewhere.read(&memory), None, "a ring that does not close has no counters");
        }
    }
}
