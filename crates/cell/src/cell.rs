//! The message to a child process: what it must measure. In: a plan. Out: one JSON line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::program::Program;

/// One candidate x workload x threads x cores x repeat: the unit that a fresh process measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The name of its study. One file of rows may contain several studies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<String>,
    /// The candidate in the study's notation: `jemalloc:narenas=1`.
    pub candidate: String,
    /// The allocator's name: `jemalloc`.
    pub allocator: String,
    /// The settings that must be in force, each in its canonical spelling, including those that emulate cores.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Variables that are passed on unchanged from the user's environment, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherited: BTreeMap<String, String>,
    /// The workload in the study's notation: `server` or `server:live=16MiB`.
    pub workload: String,
    /// Worker threads.
    pub threads: u32,
    /// CPU cores of the emulated host; `None` to use this host as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// The number of this repeat, from 0. Each repeat is a fresh process that measures the same.
    pub repeat: u32,
    /// Random seed for the workload's choices.
    pub seed: u64,
    /// The position of the cell in its round before the shuffle. Reports use it to list candidates and workloads in the
    /// order of the study, and to compare with the first.
    #[serde(default)]
    pub place: u32,
    /// The user's program, if the cell runs that. The workload is then its title, and the number of threads is 0: the
    /// program decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<Program>>,
}

impl Cell {
    /// A text that is equal for the same cell in a resumed study.
    pub fn identity(&self) -> String {
        // Its place in the round shifts when a candidate or a column is added. It is still the same cell.
        serde_json::to_string(&Cell { place: 0, ..self.clone() }).expect("a cell has only texts and numbers")
    }

    /// The name of this cell within a study, for progress lines and errors.
    pub fn title(&self) -> String {
        let cores = self.cores.map_or(String::new(), |cores| format!(", {cores} cores"));
        let threads = match self.threads {
            0 => String::new(),
            1 => ", 1 thread".into(),
            threads => format!(", {threads} threads"),
        };
        format!("{}, {}{threads}{cores}, repeat {}", self.candidate, self.workload, self.repeat)
    }
}
