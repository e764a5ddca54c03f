//! The flags of `give-back`. In: what the user typed. Out: plain values.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Flags of `give-back`.
#[derive(Args, Clone, Default)]
pub struct GiveBackFlags {
    /// A process ID, or the name of a process or of its executable.
    #[arg(value_name = "PROCESS")]
    pub process: String,
    /// Also call in all its children; the command asks once [default: one process].
    #[arg(long, conflicts_with_all = ["every", "settings"])]
    pub tree: bool,
    /// Make all checks, and print how much can go and which thread would call. Call nothing [default: ask, and call].
    #[arg(long, conflicts_with_all = ["yes", "every", "log"])]
    pub dry_run: bool,
    /// Do not ask [default: ask on a terminal; without one this flag is needed].
    #[arg(long)]
    pub yes: bool,
    /// How long the call may wait for a lock of the allocator. Then the command takes it back (glibc), or lets it wait (others).
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub lock_timeout: String,
    /// Call also if a part of the heap is in swap; the call would bring it back into memory [default: refuse].
    #[arg(long)]
    pub swapped: bool,
    /// Do it again and again, such as 10m, until the process ends; leaves longer time-outs alone [default: once].
    #[arg(long, value_name = "TIME")]
    pub every: Option<String>,
    /// With --every: only while this holds, such as 'free_pages > 200MiB' or 'reclaimable > 1GiB' [default: always].
    #[arg(long = "while", value_name = "CONDITION", requires = "every")]
    pub condition: Option<String>,
    /// Change settings of a running jemalloc instead: background_thread=true,dirty_decay_ms=1000,muzzy_decay_ms=0.
    #[arg(long, value_name = "SETTINGS", value_delimiter = ',', conflicts_with_all = ["every", "dry_run", "json", "log"])]
    pub settings: Vec<String>,
    /// Print one line of JSON for each time (docs/json.md has its fields) [default: text].
    #[arg(long)]
    pub json: bool,
    /// Append a line for each time to a file [default: none].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
}
