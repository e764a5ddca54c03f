//! The flags of `record`, `trace` and `replay`. In: what the user typed. Out: plain values, and the fields of a study file.

use std::path::PathBuf;

use clap::Args;

use super::measure::{RowsFlags, RunFlags, TimeFlags, in_words};
use super::output::TableFlags;
use super::program::ServiceFlags;
use allocanary_rows::program::Program;
use allocanary_study::session::StudyFile;

/// Flags of `record`.
#[derive(Args, Clone)]
pub struct RecordFlags {
    /// Folder for the traces, one for each program that a process executes [default: allocanary-out/record-1 and so on].
    #[arg(short, long, value_name = "FOLDER")]
    pub out_dir: Option<PathBuf>,
    /// Largest size of a trace. Then recording stops, and the program continues. With --window, the window becomes shorter instead.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub max_size: String,
    /// Keep only the last TIME, such as 60s, in a file of limited size [default: all].
    #[arg(long, value_name = "TIME")]
    pub window: Option<String>,
    /// Record all blocks, or one in N (1/N), chosen by its address: all, 1/16.
    #[arg(long, value_name = "PART", default_value = "all")]
    pub sample: String,
    /// Record the stack of all allocations, of one in N (1/N), or of none: all, 1/10, off [default: all; with --window: off].
    ///
    /// With stacks and a window, `allocanary who` shows the last seconds of a service.
    #[arg(long, value_name = "PART")]
    pub stack_sample: Option<String>,
    /// Record a process that runs already. Blocks from before are not in the trace.
    ///
    /// One of its threads loads the recorder's library. All calls go through it until the end of --for or Ctrl-C. Then the library stays in
    /// the process, and does nothing.
    #[arg(long, value_name = "PID", conflicts_with_all = ["window", "verify", "file", "program"])]
    pub attach: Option<u32>,
    /// How long --attach records [default: until Ctrl-C].
    #[arg(long = "for", value_name = "TIME", requires = "attach")]
    pub time: Option<String>,
    /// Take a recorder out of a process whose --attach was killed.
    #[arg(long, value_name = "PID", conflicts_with_all = ["attach", "window", "verify", "file", "program"])]
    pub detach: Option<u32>,
    /// Check the replay: run the program and the replay under each candidate, and print both memories side by side.
    #[arg(long, conflicts_with_all = ["sample", "window"])]
    pub verify: bool,
    /// Candidates of --verify [default: system jemalloc].
    #[arg(long, value_name = "CANDIDATE", num_args = 1.., requires = "verify")]
    pub candidates: Option<Vec<String>>,
    /// Repeats of --verify: runs of the program, and of the replay, per candidate [default: 5].
    #[arg(long, value_name = "N", requires = "verify")]
    pub repeats: Option<u32>,
    /// Recordings of --verify. Each is replayed. If the threads of the program run in another order each time, several are needed.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "verify", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub recordings: u32,
    /// A TOML file with a [program] table; flags replace its values.
    ///
    /// Its candidates, repeats, emulate_cpus and seed are for --verify. Its metrics are not read: only memory is compared.
    #[arg(long = "program", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// How the program is started, loaded and stopped.
    #[command(flatten)]
    service: ServiceFlags,
    /// Time limit of one run: a slower one is killed [default: 60s; none for a program in the terminal].
    #[arg(long, value_name = "TIME")]
    pub run_timeout: Option<String>,
    /// The program and its arguments, after `--`.
    ///
    /// For a service {port} is a free TCP port and {dir} an empty folder, as in `run`.
    #[arg(last = true, required_unless_present_any = ["file", "attach", "detach"], value_name = "PROGRAM ARGS")]
    pub program: Vec<String>,
}

impl RecordFlags {
    /// The program of `file`, changed by each flag that was given.
    pub fn over(&self, file: Program) -> Program {
        let file = self.service.over(file);
        Program { command: if self.program.is_empty() { file.command } else { self.program.clone() }, ..file }
    }
}

/// Flags of `trace`.
#[derive(Args, Clone)]
pub struct TraceFlags {
    /// What to print: check (what is damaged or missing), export (all figures), or info (a summary, as `allocanary report`).
    #[arg(value_parser = ["check", "export", "info"])]
    pub what: String,
    /// A trace of `allocanary record`.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format of export: csv (live bytes over time) or json (everything) [default: csv].
    #[arg(long, value_name = "FORMAT", value_parser = ["csv", "json"])]
    pub format: Option<String>,
}

/// How a trace is replayed: flags of `replay` and of `tune`.
#[derive(Args, Clone, Default)]
pub struct PaceFlags {
    /// Speed of a replay: 1 keeps the program's times and idle gaps, 0 goes as fast as it can [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub pace: Option<u32>,
    /// Times of a replay's marks: the peak is looked for until the first, idle is read at the second [default: as recorded].
    #[arg(long, value_name = "TIME[,TIME]")]
    pub mark_at: Option<String>,
    /// What a replay writes to a block: a byte of each page, or every byte (full) [default: page].
    #[arg(long, value_name = "PART", value_parser = ["page", "full"])]
    pub touch: Option<String>,
}

/// The help of a shared flag in `replay`.
const OWN: [(&str, &str); 1] = [("run_timeout", "Time limit of one replay [default: by the trace's length]")];

/// Flags of `replay`.
#[derive(Args, Clone)]
#[command(mut_args(|flag| in_words(flag, &OWN)))]
pub struct ReplayFlags {
    /// A trace of `allocanary record`.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Allocators with settings; the first is the baseline [default: five of this build].
    #[arg(long, value_name = "CANDIDATE", num_args = 1..)]
    candidates: Option<Vec<String>>,
    /// How it is replayed.
    #[command(flatten)]
    pub how: PaceFlags,
    /// Time for which the replay is idle before its memory is read [default: 50ms].
    #[arg(long, value_name = "TIME")]
    pub settle: Option<String>,
    /// Emulate hosts with N CPUs: arenas are sized for N CPUs [default: off].
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1..)]
    emulate_cpus: Option<Vec<u32>>,
    /// Repeats: processes per candidate [default: 10].
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// How long.
    #[command(flatten)]
    time: TimeFlags,
    /// Where to find cells and where to write results.
    #[command(flatten)]
    pub run: RunFlags,
    /// Where to write rows alone.
    #[command(flatten)]
    pub rows: RowsFlags,
    /// Continue an interrupted replay: run what is missing or failed [default: off].
    #[arg(long)]
    pub resume: bool,
    /// What is printed.
    #[command(flatten)]
    pub tables: TableFlags,
}

impl ReplayFlags {
    /// The flags as the fields of a study file.
    pub fn file(&self) -> StudyFile {
        StudyFile {
            candidates: self.candidates.clone(),
            emulate_cpus: self.emulate_cpus.clone(),
            repeats: self.repeats,
            ..self.time.file()
        }
    }
}
