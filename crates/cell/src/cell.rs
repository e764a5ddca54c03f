//! The message down to a child process: what it shall measure. In: a plan. Out: one JSON line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One candidate x workload x threads x cores x repeat: the unit that a fresh process measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The study that it belongs to, where several may lie in one file of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<String>,
    /// The candidate as it is written: `jemalloc:narenas=1`.
    pub candidate: String,
    /// The allocator's name: `jemalloc`.
    pub allocator: String,
    /// The settings that must be in force, each in its canonical spelling; those that emulated cores bring too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Variables taken over from the user's environment as they are, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherited: BTreeMap<String, String>,
    /// The workload as it is written: `server` or `server:live=16MiB`.
    pub workload: String,
    /// Worker threads.
    pub threads: u32,
    /// Cores of the host that is emulated; none for this host as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Which fresh process of those that measure the same, from 0.
    pub repeat: u32,
    /// What the workload's choices follow from.
    pub seed: u64,
    /// Where the cell stands in its round before the shuffle: reports list candidates and workloads in the order in
    /// which the study names them, and compare with the first.
    #[serde(default)]
    pub place: u32,
}

impl Cell {
    /// What makes a cell the same cell in a resumed study.
    pub fn identity(&self) -> String {
        // Its place in the round shifts when a candidate or a column is added; the cell stays the same.
        serde_json::to_string(&Cell { place: 0, ..self.clone() }).expect("a cell has only texts and numbers")
    }

    /// What names this cell within a study, in a progress line and in an error.
    pub fn title(&self) -> String {
        let cores = self.cores.map_or(String::new(), |cores| format!(", {cores} cores"));
        let plural = if self.threads == 1 { "" } else { "s" };
        format!("{}, {}, {} thread{plural}{cores}, repeat {}", self.candidate, self.workload, self.threads, self.repeat)
    }
}
