//! The moments at which a row has readings. Out: their names, in order of time.

use serde::{Deserialize, Serialize};

/// The marks at which meters are read, in order of time. A workload with many cycles marks [`Moment::Idle`] after each
/// cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The process has just started, before the workload.
    Start,
    /// The user's service answers.
    Ready,
    /// The live set is built.
    Filled,
    /// The workload has its maximum of live bytes.
    Peak,
    /// The work has paused, the live set is as large as before, and the threads have slept for a moment.
    Idle,
    /// Everything is freed; the threads still exist.
    Released,
    /// One thread has made the allocator return all memory that it can: `tuning::purge`. It cannot reach other threads' caches and, in glibc,
    /// the tops of their arenas.
    Purged,
}

impl Moment {
    /// Every moment, in order.
    pub const ALL: [Moment; 7] =
        [Moment::Start, Moment::Ready, Moment::Filled, Moment::Peak, Moment::Idle, Moment::Released, Moment::Purged];

    /// The moment's name in rows.
    pub const fn name(self) -> &'static str {
        match self {
            Moment::Start => "start",
            Moment::Ready => "ready",
            Moment::Filled => "filled",
            Moment::Peak => "peak",
            Moment::Idle => "idle",
            Moment::Released => "released",
            Moment::Purged => "purged",
        }
    }
}
