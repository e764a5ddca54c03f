//! The message up from a child process: what it measured, or what went wrong. In: a cell's run. Out: one row of
//! `samples.jsonl`, from which every report starts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Cell;
use crate::load::Load;
use crate::provenance::Provenance;
use crate::workload::Phase;

/// The version of the row's format. A reader takes this one and all before it.
pub const SCHEMA: u32 = 1;

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// What was to be measured.
    pub cell: Cell,
    /// What was measured. Stands beside an error too, where there is something to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Why there is no answer, or why it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// From the child's start to its end as its parent saw it, in microseconds.
    #[serde(default)]
    pub wall_us: u64,
    /// Milliseconds since 1970 at which the child started.
    #[serde(default)]
    pub started_ms: u64,
    /// When the cell was tried before and failed: that row's `started_ms`. This one stands in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u64>,
    /// The build and the host.
    pub provenance: Provenance,
    /// What else the machine did meanwhile; none in rows of commands that did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// How many cells its study has, so that a report can say how many are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u32>,
}

/// What a cell measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The version of the allocator that was linked.
    pub version: String,
    /// The values that the wanted settings really had; those of the variables taken over are among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<String, String>,
    /// Those of them that were read and of which nothing shows an effect here, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unproven: BTreeMap<String, String>,
    /// The marks at which meters were read, in order. A workload of many cycles is `idle` once after each.
    pub phases: Vec<Phase>,
    /// Bytes that the workload held at each phase, by its own count.
    pub live_bytes: Vec<u64>,
    /// Each reading's value at each phase; null where the meter could not say.
    pub readings: BTreeMap<String, Vec<Option<u64>>>,
    /// Operations that the workload completed: requests, hand-overs, replacements.
    pub operations: u64,
    /// Time in which they were done, without the pauses for meters, in nanoseconds.
    pub active_ns: u64,
    /// Time from the worker's first line to its last, in microseconds: the cell's cost outside it is
    /// `wall_us - worker_us`.
    #[serde(default)]
    pub worker_us: u64,
    /// How long single operations took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Blocks whose content was compared with what had been written to them.
    pub verified: u64,
    /// Numbers of the workload's own, such as `work_allocations`: what `blob` asked of the allocator for its operations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, u64>,
}

impl Answer {
    /// The value of a reading at a phase, the last time where it came more than once.
    pub fn reading(&self, name: &str, phase: Phase) -> Option<u64> {
        let at = self.phases.iter().rposition(|marked| *marked == phase)?;
        *self.readings.get(name)?.get(at)?
    }

    /// The workload's live bytes at a phase, the last time where it came more than once.
    pub fn live(&self, phase: Phase) -> Option<u64> {
        let at = self.phases.iter().rposition(|marked| *marked == phase)?;
        self.live_bytes.get(at).copied()
    }

    /// The value of a reading and the live bytes at each mark of a phase, in order.
    pub fn each(&self, name: &str, phase: Phase) -> Vec<(u64, u64)> {
        let Some(column) = self.readings.get(name) else { return Vec::new() };
        let marks = self.phases.iter().zip(column).zip(&self.live_bytes);
        marks
            .filter(|((marked, _), _)| **marked == phase)
            .filter_map(|((_, value), live)| Some(((*value)?, *live)))
            .collect()
    }
}

/// Quantiles of single operations' durations, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Operations that were timed.
    pub timed: u64,
    /// One operation in this many was timed.
    pub every: u32,
    /// Median.
    pub p50_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Why a cell has no answer that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of thing went wrong.
    pub kind: FailureKind,
    /// What was wanted, what was found, and what to do next.
    pub text: String,
}

/// The ways in which a cell fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A setting did not take effect.
    Setting,
    /// The workload's data were not what had been written.
    Corrupt,
    /// The child ended with a signal or an exit code.
    Crashed,
    /// The kernel killed the child for memory.
    OutOfMemory,
    /// The child did not end by its deadline.
    Late,
    /// The child's answer could not be read.
    Garbage,
    /// The child ended well and said nothing.
    Silent,
    /// The child could not be started.
    Start,
    /// The child could not do what the cell asks for.
    Refused,
    /// The child is of another build than the command.
    Foreign,
}
