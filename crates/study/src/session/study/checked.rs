//! A study that was checked, and the defaults that its size depends on. In: nothing. Out: types and numbers.

use std::time::Duration;

use allocanary_rows::program::Program;
use allocanary_rows::{Candidate, Spec};

/// A study with valid values. The plan checks later whether its names exist among the available cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// The study's name in its rows, which tells them from rows of other studies in the same file.
    pub name: Option<String>,
    /// The question that it answers.
    pub question: String,
    /// The candidates. The first is the baseline: the others are compared with it.
    pub candidates: Vec<Candidate>,
    /// The workloads that the cells run.
    pub workloads: Vec<Spec>,
    /// Numbers of threads, each with the emulated host.
    pub hosts: Vec<ThreadScale>,
    /// Repeats: processes per cell.
    pub repeats: u32,
    /// Random seed for run order and workloads.
    pub seed: u64,
    /// Time budget: no round starts that would end later than this, counted from the start of the first cell.
    pub budget: Option<Duration>,
    /// Time limit of one cell: a slower cell is killed.
    pub deadline: Duration,
    /// The user's program, if the study is about that.
    pub program: Option<Program>,
}

/// Number of threads, and number of cores of the emulated host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadScale {
    /// Worker threads.
    pub threads: u32,
    /// Emulated cores; `None` to use the host as it is.
    pub cores: Option<u32>,
}

/// The default numbers of threads, if neither threads nor cores are given.
pub(super) const THREADS: [u32; 4] = [1, 4, 16, 64];
/// The default number of repeats.
pub(super) const REPEATS: u32 = 10;
