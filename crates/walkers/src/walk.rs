//! What a walker is: it reads the memory of a process, and returns its allocator's heaps.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Layout, Memory, PageStates, Parts};

/// Finds and analyses the heaps of one allocator.
type DivideHeaps = fn(&dyn Memory) -> Vec<Result<Walk, Unknown>>;

/// A walker of one allocator's heaps.
pub struct Walker {
    /// The allocator's name: `glibc`.
    pub name: &'static str,
    /// In one line, the releases that it was tested with.
    pub about: &'static str,
    /// Finds and walks the heaps. Most often there is one, and none if the process does not use this allocator. A process can have several
    /// allocators: each walker finds its own.
    pub walk: DivideHeaps,
    /// Analyses heaps that change during a walk, from one short copy of the allocator's structures. `None` if the allocator's structures
    /// lie among the blocks.
    pub by_copy: Option<DivideHeaps>,
}

/// The process has this allocator, but its heap could not be analysed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{allocator}: heap not analysed: {reason}")]
pub struct Unknown {
    /// The allocator's name.
    pub allocator: &'static str,
    /// The reason, as text for the user: what was expected and what was found.
    pub reason: String,
}

/// A heap that was walked.
#[derive(Debug)]
pub struct Walk {
    /// The allocator's name.
    pub allocator: &'static str,
    /// 1 is the program's own allocator. If a process has several of the same kind, the others are in other name spaces of the loader.
    pub copy: u32,
    /// The version or the layout that the walker used: `2.36`.
    pub version: String,
    /// What lies on each page.
    pub layout: Layout,
    /// A region's arena is an index into this list.
    pub arenas: Vec<HeapArena>,
    /// Bytes of live blocks, as the allocator's own counters count them (usable or chunk sizes; the walker's file says which).
    pub live: u64,
    /// The number of live blocks.
    pub blocks: u64,
    /// Bytes in thread caches.
    pub cached: u64,
    /// How often the walk found an impossible block and continued behind it. The cause is that the heap changed during the walk.
    pub breaks: u64,
    /// Bytes that were skipped at breaks, or because the sizes of the blocks there could not be read.
    pub skipped: u64,
    /// Bytes of blocks that were allocated or freed during the walk, and may be counted twice or not at all. This occurs only if the
    /// allocator puts a new block elsewhere than where it has just freed one (mimalloc), or keeps freed blocks in a cache (jemalloc).
    pub moved: u64,
    /// Bytes in swap. They were not read: reading would load them back into memory.
    pub swapped: u64,
    /// Bytes of pages without the right to read, such as the guards of stacks that lie in blocks.
    pub unreadable: u64,
    /// Comparisons with the allocator's own counts.
    pub checks: Vec<CountCheck>,
    /// The forecast of each remedy.
    pub forecasts: Vec<Forecast>,
    /// If the heap changed too fast for a walk, the copy of its structures that was walked instead.
    pub copied: Option<CopyMoment>,
    /// The time limit, if the walk reached it before its end. What was not read is then missing in all figures.
    pub late: Option<Duration>,
}

/// A copy of an allocator's structures that was walked instead of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyMoment {
    /// When the copying began, in microseconds since 1970.
    #[serde(rename = "taken_timestamp_seconds", with = "allocanary_text::seconds::micros")]
    pub taken: u64,
    /// How long it took, in microseconds.
    #[serde(rename = "copy_seconds", with = "allocanary_text::seconds::micros")]
    pub took: u64,
    /// The figure for live bytes is wrong by at most this many bytes.
    #[serde(rename = "within_bytes")]
    pub within: u64,
}

/// An arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapArena {
    /// Its name in reports: `main`, `thread arena 3`, `jemalloc 0`, `mmapped`.
    pub name: String,
    /// Its address; 0 if it has none.
    pub at: u64,
    /// The number of threads that allocate from it. `None` if the allocator does not count them.
    pub threads: Option<u64>,
}

/// A count of the walk next to the allocator's own count of the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountCheck {
    /// What was counted: `mmapped blocks`.
    pub what: String,
    /// The allocator's count.
    pub wanted: u64,
    /// The walk's count.
    pub found: u64,
    /// The difference to accept, because the heap changes while it is read.
    pub tolerance: u64,
}

impl CountCheck {
    /// Whether the two counts differ by no more than the tolerance.
    pub fn holds(&self) -> bool {
        self.wanted.abs_diff(self.found) <= self.tolerance
    }
}

/// What a remedy would give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The remedy: `malloc_trim(0)`.
    pub remedy: &'static str,
    /// The resident bytes that it would give back.
    pub bytes: u64,
    /// Whether `bytes` is only an upper bound.
    pub at_most: bool,
}

/// Moved bytes up to this count are accepted: in the smallest heaps a few blocks are more than 2 %.
const FEW: u64 = 16 << 10;

/// The live bytes of a copy may be wrong by at most 1 / `PART` of them.
const PART: u64 = 10;

impl Walk {
    /// The name of the heap: `glibc` for the program's own, `2nd glibc` for the next.
    pub fn name(&self) -> String {
        match self.copy {
            0 | 1 => self.allocator.into(),
            2 => format!("2nd {}", self.allocator),
            3 => format!("3rd {}", self.allocator),
            copy => format!("{copy}th {}", self.allocator),
        }
    }

    /// `Ok` if the figures may be shown: at most 2 % of the heap was skipped, at most 2 % of the live bytes moved, and every check holds.
    /// The error is the reason why not, as text for the user. `resident` is the heap's resident bytes.
    pub fn trust(&self, resident: u64) -> Result<(), String> {
        if let Some(time) = self.late {
            let (blocks, live) = (self.blocks, self.live);
            return Err(format!(
                "it could not be read to its end within {} s: {blocks} live blocks of {live} bytes were met until then",
                time.as_secs_f64()
            ));
        }
        if let Some(CopyMoment { took, within, .. }) = self.copied.filter(|_| self.is_moving()) {
            return Err(format!(
                "the heap changed even while its structures were copied, in {took} us: {} live bytes were met, and {within} more or \
                 fewer are possible; --freeze stops the process for the walk",
                self.live
            ));
        }
        if self.skipped.saturating_mul(50) > resident {
            if self.swapped > 0 {
                return Err(format!(
                    "{} bytes are in swap and were not read: {} bytes lie behind blocks whose sizes are there",
                    self.swapped, self.skipped
                ));
            }
            if self.unreadable > 0 {
                return Err(format!(
                    "{} bytes are in pages that nobody may read (guards, or mprotect): {} bytes lie behind blocks whose sizes are there",
                    self.unreadable, self.skipped
                ));
            }
            return Err(format!(
                "the heap changed while it was read: {} of {resident} bytes were skipped, in {} places",
                self.skipped, self.breaks
            ));
        }
        if self.is_moving() {
            return Err(format!(
                "the heap changed while it was read: blocks of {} bytes were allocated or freed meanwhile, of {} live bytes; --freeze stops \
                 the process for the walk",
                self.moved, self.live
            ));
        }
        match self.checks.iter().find(|check| !check.holds()) {
            None => Ok(()),
            Some(check) => {
                Err(format!("{}: the allocator counts {}, the walk found {}", check.what, check.wanted, check.found))
            }
        }
    }
}

impl Walk {
    /// Whether too many live bytes moved during the count: more than 2 % of them and more than [`FEW`]. For a copy: whether more than 1 /
    /// [`PART`] of them may be wrong.
    fn is_moving(&self) -> bool {
        match self.copied {
            Some(copied) => copied.within.saturating_mul(PART) > self.live,
            None => self.moved > FEW && self.moved.saturating_mul(50) > self.live,
        }
    }

    /// Whether [`Walk::trust`] allows the figures to be shown.
    pub fn is_trusted(&self, pages: &PageStates) -> bool {
        let parts = self.layout.parts(pages, self.arenas.len() as u32);
        self.trust(parts.iter().map(Parts::sum).sum()).is_ok()
    }

    /// How doubtful the walk is: failed checks, then bytes skipped or moved, then breaks. The lower of two walks is the better one.
    pub fn doubt(&self) -> (u64, u64, u64) {
        let failed = self.checks.iter().filter(|check| !check.holds()).count();
        (failed as u64 + u64::from(self.is_moving()), self.skipped.saturating_add(self.moved), self.breaks)
    }
}

/// A walk that has found nothing yet.
pub(crate) fn empty(memory: &dyn Memory, allocator: &'static str, version: impl Into<String>) -> Walk {
    Walk {
        allocator,
        copy: 1,
        version: version.into(),
        layout: Layout::of(memory),
        arenas: Vec::new(),
        live: 0,
        blocks: 0,
        cached: 0,
        breaks: 0,
        skipped: 0,
        moved: 0,
        swapped: 0,
        unreadable: 0,
        checks: Vec::new(),
        forecasts: Vec::new(),
        copied: None,
        late: None,
    }
}
