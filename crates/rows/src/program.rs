//! The user's own program as a job: what to run, how to load it, and what to read from its output. In: flags or the
//! `[program]` table of a study file. Out: a part of the cell's message, so that a row says what was run.

use std::collections::BTreeMap;

use allocanary_text::paste::quoted;
use serde::{Deserialize, Serialize};

/// The name of a note: the number of cores that a program saw, if it did not see those that its cell emulates.
pub const CORES_SEEN: &str = "cores_seen";

/// A program that a cell runs instead of a workload.
///
/// In the texts, `{port}` is a free TCP port and `{dir}` is an empty folder, both new for each cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The name of the job in reports [default: the command line].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The file that the program gets as standard input [default: empty].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// A shell command that must succeed after the program has run. Its input is the program's standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Whether the output may differ from candidate to candidate.
    #[serde(default, skip_serializing_if = "is_false")]
    pub any_output: bool,
    /// A shell command to run before the program starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// A shell command to run after the program has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// When a service is ready: `tcp:PORT`, `http://...`, `line:TEXT`, or a shell command that succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// The shell command that loads the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// How long a service is idle after its load, before its memory is read [default: 5s].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<String>,
    /// The signal that ends a service [default: SIGTERM].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Figures to read from the output of the load, or of a program that ends: a name and a regular expression.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metric: BTreeMap<String, String>,
    /// The memory limit of each cell's control group: `256MiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<String>,
    /// The CPU limit of each cell's control group: `0.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<String>,
    /// How much worse than the first one a proposed candidate may be in other metrics, such as `throughput=5%`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerance: Vec<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Program {
    /// Whether it runs until it is stopped.
    pub fn is_service(&self) -> bool {
        self.ready.is_some() || self.load.is_some()
    }

    /// Whether its output must equal that of the other candidates. If the user has a check, that decides instead.
    pub fn compares_output(&self) -> bool {
        !self.any_output && self.check.is_none()
    }

    /// The name of the job in rows and reports.
    pub fn title(&self) -> String {
        // On one line, like all names.
        let word = |word: &String| quoted(word.split_whitespace().collect::<Vec<_>>().join(" "));
        self.name.clone().unwrap_or_else(|| self.command.iter().map(word).collect::<Vec<_>>().join(" "))
    }
}

/// The resident memory of a run over time, as it was sampled from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverTime {
    /// The length of one step in microseconds.
    pub every_us: u64,
    /// The most resident memory in each step, in KiB.
    pub resident_kib: Vec<u64>,
}

/// A program's standard output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Its length in bytes.
    pub bytes: u64,
    /// A hash of all of it.
    pub digest: String,
}

/// A figure that was read from a program's or a load's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its value, in the base unit.
    pub value: f64,
    /// Its unit, spelled as by [`Unit::name`](allocanary_text::units::Unit::name).
    pub unit: String,
    /// The better direction: `higher` or `lower`.
    pub better: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_reads_as_the_command_line() {
        let program = |words: &[&str]| Program {
            command: words.iter().map(|word| word.to_string()).collect(),
            ..Program::default()
        };
        assert_eq!(program(&["jq", ".", "a b.json"]).title(), "jq . 'a b.json'");
        assert_eq!(program(&["sh", "-c", "a\n  b"]).title(), "sh -c 'a b'");
        assert_eq!(Program { name: Some("x".into()), ..program(&["jq"]) }.title(), "x");
    }

    #[test]
    fn a_row_of_a_program_says_only_what_was_asked_for() {
        let program = Program { command: vec!["true".into()], ..Program::default() };
        let text = serde_json::to_string(&program).unwrap();
        assert_eq!(text, r#"{"command":["true"]}"#);
        assert_eq!(serde_json::from_str::<Program>(&text).unwrap(), program);
    }
}
