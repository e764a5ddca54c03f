//! The message from a child process: what it measured, or what went wrong. In: a cell's run. Out: one row of
//! `samples.jsonl`. Every report is made from these rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Cell;
use crate::Moment;
use crate::load::Load;
use crate::program::{Figure, Output, OverTime};
use crate::provenance::Provenance;

/// The note with the highest RssAnon during the replay of a trace.
pub const MOST_ANON: &str = "most_anon";

/// The note with the highest resident heap until the program is idle. It can be compared with the `peak_resident` of running the program
/// itself.
pub const HEAP_PEAK: &str = "heap_peak";

/// The version of the row's format. A reader refuses any other version.
pub const SCHEMA: u32 = 1;

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// The cell that was requested.
    pub cell: Cell,
    /// The measured values. A row with an error may have them too, if there is something to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Why there is no answer, or why the answer does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Time from the child's start to its end, measured by the parent, in microseconds. A cell's own answer lacks it.
    #[serde(default)]
    pub wall_us: u64,
    /// When the child started, in milliseconds since 1970. A cell's own answer lacks it.
    #[serde(default)]
    pub started_ms: u64,
    /// `started_ms` of an earlier row in which this cell failed. This row replaces that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u64>,
    /// The name of the host on which its study began, if the study was resumed on another host: a container has a new
    /// name after each start. A row that replaces another row takes the name of that row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_on: Option<String>,
    /// The builds of the user's files: of the program, and of a library that the candidate names by its path. The keys are the names that
    /// the user gave, and the values are short identities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub builds: BTreeMap<String, String>,
    /// The build and the host.
    pub provenance: Provenance,
    /// Other work of the machine during the cell; `None` in a cell's own answer: the command adds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// Number of cells in its study. A report uses it to say how many are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u32>,
    /// The command that measured, as it was typed; `None` in a cell's own answer, as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Sample {
    /// A row without figures.
    pub fn empty(cell: &Cell, provenance: &Provenance) -> Sample {
        Sample {
            schema: SCHEMA,
            cell: cell.clone(),
            measured: None,
            error: None,
            wall_us: 0,
            started_ms: 0,
            replaces: None,
            began_on: None,
            builds: BTreeMap::new(),
            provenance: provenance.clone(),
            load: None,
            planned: None,
            command: None,
        }
    }

    /// The name of the host on which its study began.
    pub fn origin(&self) -> &str {
        self.began_on.as_deref().unwrap_or(&self.provenance.host.name)
    }
}

/// What a cell measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The version of the linked allocator.
    pub version: String,
    /// The values of the requested settings in the process, including settings from passed-on variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<String, String>,
    /// Settings in `found` whose effect cannot be shown here, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unproven: BTreeMap<String, String>,
    /// The marks at which meters were read, in order. A workload with many cycles has an `idle` mark after each cycle.
    pub moments: Vec<Moment>,
    /// The bytes that the workload has requested and not freed at each moment, by its own count.
    pub requested_bytes: Vec<u64>,
    /// Each reading's value at each moment; `None` (`null` in the row) if the meter had no value.
    pub readings: BTreeMap<String, Vec<Option<u64>>>,
    /// Operations that the workload completed, such as requests, hand-overs or replacements.
    pub operations: u64,
    /// Time spent on these operations, without the pauses for meters, in nanoseconds.
    pub active_ns: u64,
    /// Time from the worker's first line to its last, in microseconds. The cell's cost outside the worker is
    /// `wall_us - worker_us`.
    #[serde(default)]
    pub worker_us: u64,
    /// Durations of single operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Number of blocks whose content was compared with what was written to them.
    pub verified: u64,
    /// Numbers that only this workload has. Example: `work_allocations`, the allocations of `blob` for its operations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, u64>,
    /// Figures that the user named, read from the output of a program or of its load.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Figure>,
    /// The resident memory of a program over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_time: Option<OverTime>,
    /// The variables that a program got from us: a preloaded library and its settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// What a program wrote to its standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
}

impl Measured {
    /// The value of a reading at a moment. If the moment occurs more than once, the last one counts.
    pub fn reading(&self, name: &str, moment: Moment) -> Option<u64> {
        let at = self.moments.iter().rposition(|marked| *marked == moment)?;
        *self.readings.get(name)?.get(at)?
    }

    /// The bytes that the workload has requested and not freed at a moment. If the moment occurs more than once, the last one counts.
    pub fn requested(&self, moment: Moment) -> Option<u64> {
        let at = self.moments.iter().rposition(|marked| *marked == moment)?;
        self.requested_bytes.get(at).copied()
    }

    /// The value of a reading and the requested bytes at each mark of a moment, in order.
    pub fn each(&self, name: &str, moment: Moment) -> Vec<(u64, u64)> {
        let Some(column) = self.readings.get(name) else { return Vec::new() };
        let marks = self.moments.iter().zip(column).zip(&self.requested_bytes);
        marks
            .filter(|((marked, _), _)| **marked == moment)
            .filter_map(|((_, value), live)| Some(((*value)?, *live)))
            .collect()
    }
}

/// Quantiles of single operations' durations, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Operations that were timed.
    pub timed: u64,
    /// One in this many operations was timed.
    pub every: u32,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

/// Why a cell has no valid answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// What was expected, what was found, and what to do next.
    pub text: String,
}

/// The ways in which a cell fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A setting did not take effect.
    Setting,
    /// The workload read other data than it had written.
    Corrupt,
    /// The child ended with a signal or a non-zero exit code.
    Crashed,
    /// The kernel killed the child because memory ran out.
    OutOfMemory,
    /// The child did not end by its deadline.
    Late,
    /// The child's answer could not be read.
    Garbage,
    /// The child ended with success, but without output.
    Silent,
    /// The child could not be started.
    Start,
    /// The child cannot do what the cell requests.
    Refused,
    /// The child and the command are different builds.
    Foreign,
    /// A command around the user's program failed: its load, its check, or one before or after it.
    Around,
}
