//! The contract of a walker: the memory of a process in, its allocator's heap out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Layout, Memory, PageStates, Parts};

/// Finds and divides the heaps of an allocator.
type DivideHeaps = fn(&dyn Memory) -> Vec<Result<Walk, Unknown>>;

/// A walker of one allocator's heaps.
pub struct Walker {
    /// The allocator's name: `glibc`.
    pub name: &'static str,
    /// What it knows, in one line: the releases that it was tested with.
    pub about: &'static str,
    /// Finds and walks its heaps. None if this allocator is not in the process, and mostly one. A process can have several allocators, and
    /// then each walker finds its own.
    pub walk: DivideHeaps,
    /// Divides heaps that change while they are walked, from one short copy of the allocator's structures. None for an allocator whose
    /// structures lie among the blocks.
    pub by_copy: Option<DivideHeaps>,
}

/// The allocator is there, and its heap could not be taken apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{allocator}: heap not divided: {reason}")]
pub struct Unknown {
    /// The allocator.
    pub allocator: &'static str,
    /// The reason, for a reader: what was wanted and what was found.
    pub reason: String,
}

/// A heap that was walked.
#[derive(Debug)]
pub struct Walk {
    /// The allocator's name.
    pub allocator: &'static str,
    /// Which one it is, if a process has several of this allocator: 1 is the program's own, the others are in other name spaces.
    pub copy: u32,
    /// The version or the layout by which it was read: `2.36`.
    pub version: String,
    /// What lies on each page.
    pub layout: Layout,
    /// The arenas. A region's arena is an index into these.
    pub arenas: Vec<HeapArena>,
    /// Bytes of live blocks, as the allocator's own counters count them (usable or chunk sizes; the walker's file says which).
    pub live: u64,
    /// Blocks that are live.
    pub blocks: u64,
    /// Bytes in thread caches.
    pub cached: u64,
    /// Places at which the walk found a block that cannot be, and went on behind it: the heap changed under it.
    pub breaks: u64,
    /// Bytes that were skipped at breaks, or because what says where they end could not be read.
    pub skipped: u64,
    /// Bytes of blocks that were allocated or freed while the counts were read, so that they may count twice or not at all. Only for
    /// an allocator that puts a block elsewhere than where it has just freed one (mimalloc), or that keeps it in a cache (jemalloc).
    pub moved: u64,
    /// Bytes that are in swap. They were not read, since that would bring them back.
    pub swapped: u64,
    /// Bytes of pages that nobody may read, such as the guards of stacks that lie in blocks.
    pub unreadable: u64,
    /// What was compared with the allocator's own counts.
    pub checks: Vec<CountCheck>,
    /// What each remedy would give back.
    pub forecasts: Vec<Forecast>,
    /// The copy that it is from, if the heap changes too fast to be walked.
    pub copied: Option<CopyMoment>,
    /// The time that it had, if that was over before its end: what it has not read is missing in all figures.
    pub late: Option<Duration>,
}

/// The copy of an allocator's structures that a walk is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyMoment {
    /// When it was begun, in microseconds since 1970.
    #[serde(rename = "taken_timestamp_seconds", with = "allocanary_text::seconds::micros")]
    pub taken: u64,
    /// How long it took, in microseconds.
    #[serde(rename = "copy_seconds", with = "allocanary_text::seconds::micros")]
    pub took: u64,
    /// By at most how many bytes the live ones are off.
    #[serde(rename = "within_bytes")]
    pub within: u64,
}

/// An arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapArena {
    /// Its name in reports: `main`, `thread arena 3`, `jemalloc 0`, `mmapped`.
    pub name: String,
    /// Its address, if it has one.
    pub at: u64,
    /// Threads that allocate from it, where the allocator counts them.
    pub threads: Option<u64>,
}

/// A count of the walk, and the same count by the allocator itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountCheck {
    /// What was counted: `mmapped blocks`.
    pub what: String,
    /// The allocator's count.
    pub wanted: u64,
    /// The walk's.
    pub found: u64,
    /// The difference that a heap which changes while it is read may have.
    pub tolerance: u64,
}

impl CountCheck {
    /// Whether both agree.
    pub fn holds(&self) -> bool {
        self.wanted.abs_diff(self.found) <= self.tolerance
    }
}

/// What a remedy would give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The remedy: `malloc_trim(0)`.
    pub remedy: &'static str,
    /// Resident bytes that it would give back.
    pub bytes: u64,
    /// Whether that is an upper bound only.
    pub at_most: bool,
}

/// In the smallest heaps a few blocks are more than 2 %.
const FEW: u64 = 16 << 10;

/// The live bytes of a copy may be off by one part in so many.
const PART: u64 = 10;

impl Walk {
    /// The name of its heap: the allocator's, or `2nd glibc`.
    pub fn name(&self) -> String {
        match self.copy {
            0 | 1 => self.allocator.into(),
            2 => format!("2nd {}", self.allocator),
            3 => format!("3rd {}", self.allocator),
            copy => format!("{copy}th {}", self.allocator),
        }
    }

    /// Whether its figures may be shown: at most 2 % of the heap was skipped, and of the live blocks moved, and every check holds.
    /// Otherwise the reason.
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
    /// Whether more than 2 % of the live bytes, and not only few blocks, moved while they were counted; or so many may be wrong in a copy
    /// that it is of no use.
    fn is_moving(&self) -> bool {
        match self.copied {
            Some(copied) => copied.within.saturating_mul(PART) > self.live,
            None => self.moved > FEW && self.moved.saturating_mul(50) > self.live,
        }
    }

    /// Whether its figures may be shown.
    pub fn is_trusted(&self, pages: &PageStates) -> bool {
        let parts = self.layout.parts(pages, self.arenas.len() as u32);
        self.trust(parts.iter().map(Parts::sum).sum()).is_ok()
    }

    /// How doubtful a walk is: checks that fail, then bytes skipped or moved, then breaks. Of two walks the lower one is better.
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
