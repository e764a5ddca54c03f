//! The flags of `who`. In: what the user typed. Out: plain values.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::output::OutputFlags;

/// Flags of `who`.
#[derive(Args, Clone, Default)]
pub struct WhoFlags {
    /// A trace with stacks, or the ID of a process that has a profile.
    ///
    /// `allocanary record` makes traces. --by thread needs no stacks. A number is always a process: write ./1 for a trace with the name 1. A
    /// process has a profile if it runs under `allocanary preload profile`, or with the preloads' setting profile=512KiB.
    #[arg(value_name = "TRACE|PID", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
    /// When: peak, idle, end, or a time after the start, such as 12s [default: idle if the trace has this mark, else end or peak; see
    /// Defaults].
    #[arg(long, value_name = "MOMENT")]
    pub at: Option<String>,
    /// What a site is.
    #[arg(long, value_name = "WHAT", default_value = "function", value_parser = ["function", "line", "module", "thread"])]
    pub by: String,
    /// Also replay the trace under this allocator, and show whose blocks pin pages there: own, or any candidate of `replay`.
    #[arg(long, value_name = "CANDIDATE", conflicts_with = "format")]
    pub under: Option<String>,
    /// Replay the trace with the blocks of this site elsewhere, and show how much less the heap keeps. SITE is its name in the table, or a part
    /// of it. Needs a trace with --stack-sample all [default: under own; 15 replays, five each way].
    #[arg(long, value_name = "SITE", conflicts_with_all = ["format", "against", "top"])]
    pub what_if: Option<String>,
    /// Print who calls this site, as a tree with the bytes of each branch. SITE is (a part of) its name in the table.
    #[arg(long, value_name = "SITE", conflicts_with_all = ["against", "what_if", "under", "top"])]
    pub callers: Option<String>,
    /// Do not count this function as a site: its caller is the site. PATTERN is the whole name of a function, a program or a library, and * is
    /// any text. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub skip: Vec<String>,
    /// Count each function that called malloc as a site, even if it only passes requests on.
    #[arg(long)]
    pub no_fold: bool,
    /// By what sites are sorted, and which bytes --format collapsed and flamegraph show: pinned, requested, allocated, or grows [default: pinned,
    /// or requested if less than a tenth of the heap is pinned].
    #[arg(long, value_name = "WHAT", value_parser = ["pinned", "requested", "allocated", "grows"], conflicts_with_all = ["against", "what_if"])]
    pub sort: Option<String>,
    /// Sites that are shown [default: 15; --json: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// Compare with an earlier trace, or with what `who --json` printed of it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["format", "under"])]
    pub against: Option<PathBuf>,
    /// Fail if a site holds more than in the earlier trace, and the difference is more than PERCENT of the earlier heap: site=5% [default: none].
    #[arg(long, value_name = "site=PERCENT", requires = "against")]
    pub gate: Option<String>,
    /// What is printed.
    #[command(flatten)]
    pub output: OutputFlags,
    /// Write whole stacks for other tools as well: pprof (`go tool pprof`), collapsed (a line each), or flamegraph (SVG).
    #[arg(long, value_name = "FORMAT", value_parser = ["pprof", "collapsed", "flamegraph"], requires = "to")]
    pub format: Option<String>,
    /// The file of --format; only you can read it.
    #[arg(long = "output", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "format")]
    pub to: Option<PathBuf>,
}
