//! A process that the agent knows, and what it knows of it.

use std::time::Duration;

use allocanary_heap::counters::AllocatorCounters;
use allocanary_rows::fleet::{Bound, Part, Parts};

use crate::group::Membership;
use crate::look::{HeapState, ProcessIdentity};
use crate::schedule::ReadCandidate;
use crate::stat::MemoryStatus;

/// All that is known of one process.
#[derive(Clone, Debug, Default)]
pub struct ProcessRecord {
    /// Its name.
    pub name: String,
    /// Its memory, as the kernel counts it.
    pub status: MemoryStatus,
    /// The container or unit that it belongs to.
    pub place: Membership,
    /// Its groups, as the kernel lists them.
    pub listed: String,
    /// Its PID.
    pub pid: u32,
    /// When it was started, in milliseconds since 1970.
    pub started: u64,
    /// CPU time of it and of its children that have ended, in milliseconds.
    pub cpu: u64,
    /// Whether the agent may read its memory. `None` until that was tried.
    pub may_read: Option<bool>,
    /// Whether two counts have seen it, or it is older than the agent. Only such processes are read, because others may end at once.
    pub has_stayed: bool,
    /// Its allocators. `None` until its first reading.
    pub identity: Option<ProcessIdentity>,
    /// What its allocators count. `None` if they did not answer at the last count.
    pub counters: Option<Vec<AllocatorCounters>>,
    /// Whether its counters took too long to read. They are not read again before its next reading.
    pub is_stuck: bool,
    /// Its heap and when it was read, in milliseconds since 1970.
    pub heap: Option<(u64, HeapState)>,
    /// When it was last read or could not be read, since the agent's start.
    pub tried: Option<Duration>,
    /// The CPU time of its last reading.
    pub cost: Option<Duration>,
    /// How many readings in a row have failed.
    pub failures: u32,
    /// The problem of its last reading. Empty if it had none.
    pub problem: String,
}

/// The name of an allocator that is not known.
pub const UNKNOWN: &str = "unknown";
/// The remedy that gives free pages back.
const GIVE_BACK: &str = "give-back";

impl ProcessRecord {
    /// Its resident bytes now, by part. The parts are those of its last reading. Without one, the kernel's counts are used.
    pub fn parts(&self) -> Parts {
        let parts = match &self.heap {
            Some((_, heap)) => heap.parts,
            None => {
                let mut parts = Parts::default();
                parts.add(Part::Unknown, self.status.anonymous);
                parts.add(Part::Files, self.status.resident - self.status.anonymous);
                parts
            }
        };
        allocanary_rows::fleet::now(parts, self.status.resident)
    }

    /// What decides how soon its heap is read.
    pub fn waiting(&self, now: Duration) -> ReadCandidate {
        let read = self.heap.as_ref().map_or(0, |(_, heap)| heap.parts.sum());
        ReadCandidate {
            anonymous: if self.is_denied() || !self.has_stayed { 0 } else { self.status.anonymous },
            age: self.tried.map(|tried| now.saturating_sub(tried)),
            failures: self.failures,
            changed: self.heap.as_ref().map_or(0, |_| read.abs_diff(self.status.resident)),
        }
    }

    /// Whether its memory may not be read.
    pub fn is_denied(&self) -> bool {
        self.may_read == Some(false)
    }

    /// Whether an allocator of it has counters.
    pub fn has_counters(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| !identity.places.is_empty())
    }

    /// The most that each remedy would give back: as at its last reading, but no more than the process has now.
    pub fn bounds(&self) -> Vec<Bound> {
        let Some((_, heap)) = &self.heap else { return Vec::new() };
        let kept = self.parts().of(Part::FreePages);
        let now = |bound: &Bound| {
            let most = if bound.remedy == GIVE_BACK { kept } else { self.status.anonymous };
            Bound { bytes: bound.bytes.min(most), ..bound.clone() }
        };
        heap.bounds.iter().map(now).collect()
    }

    /// The name of its allocator.
    pub fn allocator(&self) -> &str {
        self.identity.as_ref().map_or(UNKNOWN, |identity| identity.allocator.as_str())
    }
}
