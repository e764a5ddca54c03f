//! Flags of `tune`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::measure::{MeasureFlags, RunFlags, in_words};
use super::output::OutputFlags;
use super::program::ProgramFlags;
use super::traces::PaceFlags;

/// The flags of `study` that have another meaning or default in `tune`.
const OWN: [(&str, &str); 6] = [
    ("workloads", "Workload, such as server or server:live=64MiB,settle=500ms [default: server]"),
    ("threads", "Number of worker threads [default: 16; with --emulate-cpus: N threads]"),
    ("emulate_cpus", "Emulate a host with N CPUs: arenas are sized for N CPUs [default: off]"),
    ("repeats", "Fresh rows for each finalist [default: 10]"),
    (
        "settle",
        "Time for which a service or a replay is idle before its memory is read [default: 5s; 50ms for a replay]",
    ),
    ("time_budget", "Time budget (90s, 10m) [default: 5m, or more if the search needs it; see Defaults]"),
];

/// Flags of `tune`.
#[derive(Args, Clone, Default)]
#[command(mut_args(|flag| in_words(flag, &OWN)))]
pub struct TuneFlags {
    /// A trace of `allocanary record`, or a study file (*.toml) [default: a built-in workload].
    ///
    /// A program stands after `--`.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// What should become less: memory, cpu or p99.
    #[arg(long, value_name = "OBJECTIVE", default_value = "memory")]
    pub objective: String,
    /// What may get worse, and by how much [default: throughput=5%,p99=20%; wall=5%,cpu=20% for a program that ends].
    ///
    /// A list that you give replaces the default: metrics that it does not name are not limited.
    #[arg(long, value_name = "METRIC=PERCENT", value_delimiter = ',')]
    pub tolerance: Option<Vec<String>>,
    /// Allocators to search, without settings: the search finds those [default: all that have a cell, or all preloads].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', num_args = 1..)]
    pub candidates: Option<Vec<String>>,
    /// What you have now, such as jemalloc:narenas=2.
    ///
    /// Default: for a program its allocator (own), for a trace system, otherwise this command's allocator.
    #[arg(long, value_name = "CANDIDATE")]
    pub present: Option<String>,
    /// The program.
    #[command(flatten)]
    pub program: ProgramFlags,
    /// How a trace is replayed.
    #[command(flatten)]
    pub how: PaceFlags,
    /// What to measure.
    #[command(flatten)]
    pub measure: MeasureFlags,
    /// Where to find cells and where to write results.
    #[command(flatten)]
    pub run: RunFlags,
    /// Continue an interrupted search with the same flags [default: off].
    #[arg(long)]
    pub resume: bool,
    /// What is printed.
    #[command(flatten)]
    pub output: OutputFlags,
}
