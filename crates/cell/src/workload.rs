//! The contract of a workload: what a cell does with memory. In: threads, a seed, parameters. Out: marks at moments,
//! each with the live bytes; the number of operations and their time.
//!
//! A workload must request the same blocks for the same seed, touch all memory that it allocates, count its live bytes, and compare its
//! data with what it wrote. It is independent of the meters: it calls [`WorkloadStage::mark`], and the stage reads the meters. The entries
//! are in [`workloads`](crate::workloads).

use std::collections::BTreeMap;
use std::time::Duration;

pub use allocanary_rows::Moment;

use allocanary::Allocator;
use allocanary_facts::setting::{Setting, SettingKind};
use allocanary_rows::description::{ParameterDescription, WorkloadDescription};

/// What a cell does with memory.
pub struct Workload {
    /// Its name: `server`.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What one operation is: `request`.
    pub operation: &'static str,
    /// Its parameters, each with its default.
    pub parameters: &'static [(Setting, &'static str)],
    /// The estimated duration of one cell on two CPU cores with the default parameters, in seconds, without its idle waits. This field and
    /// the next two are only for the plan's estimate.
    pub seconds: f64,
    /// The duration is proportional to this: a parameter, or a sum of parameters such as `steady+requests`.
    pub grows_with: &'static [&'static str],
    /// The parameter with the number of idle waits. `None` means one wait.
    pub rests: Option<&'static str>,
    /// The function that runs the workload.
    pub run: fn(&Setup, &mut dyn WorkloadStage) -> Result<Outcome, String>,
}

impl Workload {
    /// The description of the workload for the command.
    pub fn description(&self) -> WorkloadDescription {
        let parameter = |(setting, default): &(Setting, &str)| ParameterDescription {
            setting: setting.clone(),
            default: default.to_string(),
        };
        WorkloadDescription {
            name: self.name.into(),
            about: self.about.into(),
            operation: self.operation.into(),
            parameters: self.parameters.iter().map(parameter).collect(),
            seconds: self.seconds,
            grows_with: self.grows_with.iter().map(|name| name.to_string()).collect(),
            rests: self.rests.map(str::to_string),
        }
    }
}

/// A row of a workload's table of parameters.
pub const fn parameter(
    name: &'static str,
    kind: SettingKind,
    default: &'static str,
    about: &'static str,
) -> (Setting, &'static str) {
    (Setting::new(name, kind, about), default)
}

/// A time for which a workload waits.
pub const WAIT: SettingKind = SettingKind::Time { min: 0, max: 1_000_000_000 };

/// The input of a workload.
pub struct Setup<'a> {
    /// Worker threads, at least 1.
    pub threads: usize,
    /// Random seed for all choices.
    pub seed: u64,
    /// Every parameter of the workload's table, with defaults filled in, in canonical spelling.
    pub parameters: BTreeMap<String, String>,
    /// Receives the durations of single operations.
    pub timer: &'a dyn Timer,
    /// The bytes that the allocator uses for a block of 16 bytes.
    pub small_block: usize,
    /// The allocator that is linked into the cell.
    pub allocator: &'a dyn Allocator,
}

impl Setup<'_> {
    /// A parameter whose value is a word.
    pub fn word(&self, name: &str) -> Result<&str, String> {
        self.parameters.get(name).map(String::as_str).ok_or_else(|| format!("no parameter `{name}`"))
    }

    /// A numeric parameter: a number, or a size in bytes.
    pub fn number(&self, name: &str) -> Result<usize, String> {
        let value = self.word(name)?;
        value.parse().map_err(|_| format!("parameter `{name}`: wanted a number, found `{value}`"))
    }

    /// A parameter that is a time.
    pub fn time(&self, name: &str) -> Result<Duration, String> {
        let value = self.word(name)?;
        let millis = value.strip_suffix("ms").and_then(|millis| millis.parse().ok());
        let wanted = || format!("parameter `{name}`: wanted a time such as 50ms, found `{value}`");
        millis.map(Duration::from_millis).ok_or_else(wanted)
    }

    /// A parameter that is `true` or `false`.
    pub fn flag(&self, name: &str) -> Result<bool, String> {
        Ok(self.word(name)? == "true")
    }
}

/// Receives the moments of a workload.
pub trait WorkloadStage {
    /// The workload pauses in `moment` and has `live_bytes` by its own count. Before [`Moment::Purged`] the stage makes the allocator
    /// return all memory that it can. The same moment may be marked again, up to [`MOST_MARKS`] marks in all.
    fn mark(&mut self, moment: Moment, live_bytes: u64);

    /// Receives a number that only this workload has. The row contains the number under its name.
    fn note(&mut self, _name: &'static str, _value: u64) {}
}

/// Receives durations of single operations, in nanoseconds.
pub trait Timer: Sync {
    /// Records some durations. Any thread may call it. It must not allocate.
    fn record(&self, laps: &[u64]);
}

/// The maximum number of marks of one run, including `start`. It is fixed in advance, because a growing list would
/// allocate between two readings.
pub const MOST_MARKS: usize = 32;

/// What a workload did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Completed operations.
    pub operations: u64,
    /// The time spent on them, without the pauses at marks.
    pub active: Duration,
    /// One in this many operations was timed.
    pub timed_every: u32,
    /// Number of blocks whose content was compared with what was written to them.
    pub verified: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads;

    #[test]
    fn every_workload_can_be_planned_with() {
        for workload in workloads::ALL {
            assert_eq!(workload.description().check(), Ok(()));
        }
    }

    #[test]
    fn what_no_time_follows_from_is_refused_by_name() {
        let known = workloads::ALL.iter().find(|workload| workload.name == "storm").unwrap().description();
        let text = |text: &str| text.to_string();
        for (wrong, said) in [
            (
                WorkloadDescription { seconds: -1.0, ..known.clone() },
                "`storm`: seconds: wanted 0 to 3000000000, found -1",
            ),
            (WorkloadDescription { seconds: 1e300, ..known.clone() }, "`storm`: seconds: wanted 0 to"),
            (WorkloadDescription { grows_with: vec![text("ballast")], ..known.clone() }, "found `ballast`, 0"),
            (
                WorkloadDescription { grows_with: vec![text("load+x")], ..known.clone() },
                "found `load+x`, which is no number",
            ),
            (WorkloadDescription { rests: Some(text("ballast")), ..known.clone() }, "found `ballast`, 0"),
        ] {
            let error = wrong.check().unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(WorkloadDescription { grows_with: vec![text("ballast+load")], ..known }.check(), Ok(()));
    }
}
