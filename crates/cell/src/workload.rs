//! The contract of a workload: what a cell does with memory. In: threads, a seed, parameters. Out: marks at phases,
//! with the live bytes at each, and how many operations were done in what time.
//!
//! A workload asks for the same blocks whenever the seed is the same, touches all that it allocates, knows what
//! it holds, and compares its data with what it wrote. It knows no meter: it calls [`Stage::mark`], and who
//! listens is not its business. The entries are in [`workloads`](crate::workloads).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use allocanary_allocators::setting::{Kind, Setting};

/// What a cell does with memory.
pub struct Workload {
    /// Its name: `server`.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What an operation is: `request`.
    pub operation: &'static str,
    /// What can be set, each with its default.
    pub parameters: &'static [(Setting, &'static str)],
    /// How long one cell takes on two cores as the table stands, in seconds, without its rests. This and the next two are
    /// for the plan's estimate only.
    pub seconds: f64,
    /// What that time grows with: a parameter, or a sum of some, as `steady+requests`.
    pub grows_with: &'static [&'static str],
    /// The parameter that says how often it rests for `idle`; once, where there is none.
    pub rests: Option<&'static str>,
    /// Does it.
    pub run: fn(&Setup, &mut dyn Stage) -> Result<Outcome, String>,
}

/// Makes the allocator give back what the calling thread keeps.
pub type GiveBack<'a> = dyn Fn(Duration) + Sync + 'a;

/// A row of a workload's table of parameters.
pub const fn parameter(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> (Setting, &'static str) {
    (Setting::new(name, kind, about), default)
}

/// What a workload is given.
pub struct Setup<'a> {
    /// Worker threads, at least 1.
    pub threads: usize,
    /// What all choices follow from.
    pub seed: u64,
    /// Every parameter of the workload's table, defaults filled in, in canonical spelling.
    pub parameters: BTreeMap<String, String>,
    /// What takes the durations of single operations.
    pub timer: &'a dyn Timer,
    /// What a block of 16 bytes takes of the allocator, in bytes.
    pub small_block: usize,
    /// Makes the allocator give back what the calling thread keeps, if so much time has passed since the thread's last.
    pub give_back: &'a GiveBack<'a>,
}

impl Setup<'_> {
    /// A parameter as it is written: one of its words.
    pub fn word(&self, name: &str) -> Result<&str, String> {
        self.parameters.get(name).map(String::as_str).ok_or_else(|| format!("no parameter `{name}`"))
    }

    /// A numeric parameter: a number, or a size in bytes.
    pub fn number(&self, name: &str) -> Result<usize, String> {
        let value = self.word(name)?;
        value.parse().map_err(|_| format!("parameter `{name}`: wanted a number, found `{value}`"))
    }

    /// A parameter in milliseconds.
    pub fn millis(&self, name: &str) -> Result<Duration, String> {
        Ok(Duration::from_millis(self.number(name)? as u64))
    }
}

/// What listens to a workload's phases.
pub trait Stage {
    /// The workload stands still in `phase`, holding `live_bytes` by its own count. Before [`Phase::Purged`] the
    /// stage makes the allocator give back what it can. A phase that comes again is marked again, up to [`MOST_MARKS`].
    fn mark(&mut self, phase: Phase, live_bytes: u64);

    /// Takes a number of the workload's own, which goes into the row under its name.
    fn note(&mut self, _name: &'static str, _value: u64) {}
}

/// What takes durations of single operations, in nanoseconds.
pub trait Timer: Sync {
    /// Takes some durations. Called from any thread; does not allocate.
    fn record(&self, laps: &[u64]);
}

/// The most marks that one run can make, `start` included. A number fixed in advance: a list that grew would allocate
/// between two readings.
pub const MOST_MARKS: usize = 32;

/// The marks at which meters are read, in the order in which they come; a workload of many cycles marks
/// [`Phase::Idle`] after each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The process has just started: nothing of the workload is there.
    Start,
    /// The live set is built.
    Filled,
    /// The most is held.
    Peak,
    /// The work is over for now, the live set is as it was, and the threads have slept for a moment.
    Idle,
    /// Everything is freed; the threads still live.
    Released,
    /// One thread has asked the allocator to give back all that it can: see [`tuning::purge`](allocanary_allocators::tuning::purge). What other
    /// threads' caches hold, and in glibc the tops of their arenas, is out of its reach.
    Purged,
}

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Phase; 6] = [Phase::Start, Phase::Filled, Phase::Peak, Phase::Idle, Phase::Released, Phase::Purged];

    /// The phase's name, as rows have it.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Filled => "filled",
            Phase::Peak => "peak",
            Phase::Idle => "idle",
            Phase::Released => "released",
            Phase::Purged => "purged",
        }
    }
}

/// What a workload did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Operations completed.
    pub operations: u64,
    /// The time in which they were done, without the pauses at marks.
    pub active: Duration,
    /// One operation in this many was timed.
    pub timed_every: u32,
    /// Blocks whose content was compared with what had been written.
    pub verified: u64,
}
