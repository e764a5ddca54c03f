//! The command line. In: what the user typed. Out: plain values. The only file that knows clap.

mod examples;

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use allocanary_study::StudyFile;
use examples::{
    COMPARE_EXAMPLES, DOCTOR_EXAMPLES, EXAMPLES, LIST_EXAMPLES, PLAN_EXAMPLES, REPORT_EXAMPLES, STUDY_EXAMPLES,
};

/// What the memory allocator costs a service as threads and cores grow.
///
/// Without a verb: resident memory against the number of threads, for the allocator that this command was built with and
/// under whatever configuration its environment gives it.
#[derive(Parser)]
#[command(name = "allocanary", version, max_term_width = 100, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
struct Line {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    here: HereFlags,
}

#[derive(Subcommand)]
enum Verb {
    /// Compare allocators and settings, with intervals and verdicts.
    #[command(after_help = STUDY_EXAMPLES)]
    Study(StudyFlags),
    /// Print the cells of a study and how long they will take; run nothing.
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(StudyFlags),
    /// Print what there is to choose from: allocators, settings, workloads, meters, metrics, studies.
    #[command(after_help = LIST_EXAMPLES)]
    List(ListFlags),
    /// Show rows again, of one study or of many hosts.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(ReportFlags),
    /// Say per candidate and workload whether NEW is better than OLD, worse, equal, or undecided.
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareFlags),
    /// Say what this host, its container and the environment make of allocators, and what to change.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorFlags),
    /// Print a completion script for a shell.
    #[command(after_help = "Example:\n  allocanary completions bash > /etc/bash_completion.d/allocanary")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, in roff.
    #[command(after_help = "Example:\n  allocanary man > allocanary.1 && man ./allocanary.1")]
    Man,
}

/// What the user wants done.
pub enum Task {
    /// Measure this build's allocator.
    Here(HereFlags),
    /// Run a study.
    Study(StudyFlags),
    /// Print a study's plan.
    Plan(StudyFlags),
    /// Print what there is.
    List(ListFlags),
    /// Show rows.
    Report(ReportFlags),
    /// Compare two files of rows.
    Compare(CompareFlags),
    /// Look at this host or at a process.
    Doctor(DoctorFlags),
    /// Write a completion script.
    Completions(Shell),
    /// Write the manual page.
    Man,
    /// Write help or version.
    Text {
        /// For a file or a pipe.
        plain: String,
        /// For a terminal.
        colored: String,
    },
}

/// Reads the command line. Mistakes are answered by clap, which ends the process; help and version are texts like any
/// other, since clap's own way passes over a text that could not be written.
pub fn parse() -> Task {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(text) if matches!(text.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let text = text.render();
            return Task::Text { plain: text.to_string(), colored: text.ansi().to_string() };
        }
        Err(mistake) => mistake.exit(),
    };
    match line.verb {
        None => Task::Here(line.here),
        Some(Verb::Study(flags)) => Task::Study(flags),
        Some(Verb::Plan(flags)) => Task::Plan(flags),
        Some(Verb::List(flags)) => Task::List(flags),
        Some(Verb::Report(flags)) => Task::Report(flags),
        Some(Verb::Compare(flags)) => Task::Compare(flags),
        Some(Verb::Doctor(flags)) => Task::Doctor(flags),
        Some(Verb::Completions { shell }) => Task::Completions(shell),
        Some(Verb::Man) => Task::Man,
    }
}

/// A completion script for a shell.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Line::command(), "allocanary", &mut script);
    script
}

/// The manual page.
pub fn manual() -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Line::command()).render(&mut page)?;
    Ok(page)
}

/// What is measured, on how many threads and cores, how often.
#[derive(Args, Clone, Default)]
pub struct MeasureFlags {
    /// What the cells do: `server`, or `server:live=64MiB,idle=500`.
    #[arg(long, value_name = "WORKLOAD", num_args = 1..)]
    workloads: Option<Vec<String>>,
    /// Worker threads.
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1..)]
    threads: Option<Vec<u32>>,
    /// Behave as on hosts with so many cores: arenas by cores and, without --threads, a thread for each.
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1..)]
    cores: Option<Vec<u32>>,
    /// Fresh processes for each cell.
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// What the order and the workloads' choices follow from.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Time budget (90s, 5m): no round of cells starts that would end after it.
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Kill a cell that takes longer.
    #[arg(long, value_name = "TIME")]
    deadline: Option<String>,
}

impl MeasureFlags {
    /// The flags in the shape of a study's file.
    pub fn file(&self) -> StudyFile {
        StudyFile {
            workloads: self.workloads.clone(),
            threads: self.threads.clone(),
            cores: self.cores.clone(),
            repeats: self.repeats,
            seed: self.seed,
            budget: self.budget.clone(),
            deadline: self.deadline.clone(),
            ..StudyFile::default()
        }
    }
}

/// Where cells come from and rows go.
#[derive(Args, Clone, Default)]
pub struct RunFlags {
    /// Where rows and report go: a folder, a file of rows (*.jsonl), or - for rows on standard output.
    #[arg(long, value_name = "PATH")]
    pub out: Option<String>,
    /// Look for cells here too, before the command's own folder; repeatable.
    #[arg(long, value_name = "FOLDER")]
    pub cells: Vec<PathBuf>,
}

/// Flags of the command without a verb.
#[derive(Args, Clone, Default)]
pub struct HereFlags {
    /// What is measured.
    #[command(flatten)]
    pub measure: MeasureFlags,
    /// Where from and to.
    #[command(flatten)]
    pub run: RunFlags,
}

/// Flags of `study` and `plan`.
#[derive(Args, Clone, Default)]
pub struct StudyFlags {
    /// A study: a TOML file, or the name of a shipped one; `cases` is six of them.
    #[arg(value_name = "STUDY")]
    pub study: Option<String>,
    /// Allocators with settings: `jemalloc:narenas=1,tcache=false`. The others are compared with the first.
    #[arg(long, value_name = "CANDIDATE", num_args = 1..)]
    candidates: Option<Vec<String>>,
    /// What is measured.
    #[command(flatten)]
    pub measure: MeasureFlags,
    /// Where from and to.
    #[command(flatten)]
    pub run: RunFlags,
    /// At all of its larger sizes for which there is memory (shipped cases, and files with `[[full]]` tables).
    #[arg(long)]
    pub full: bool,
    /// Finish the study in --out: run the cells that have no row yet, and those that failed.
    #[arg(long)]
    pub resume: bool,
}

impl StudyFlags {
    /// The folder that --out names, where it is one.
    pub fn out_folder(&self) -> Option<PathBuf> {
        self.run.out.as_ref().map(PathBuf::from)
    }

    /// The flags in the shape of a study's file.
    pub fn file(&self) -> StudyFile {
        StudyFile { candidates: self.candidates.clone(), ..self.measure.file() }
    }
}

/// Flags of `list`.
#[derive(Args, Clone, Default)]
pub struct ListFlags {
    /// Only this: allocators, settings, workloads, meters, metrics, studies or formats.
    pub what: Option<String>,
    /// Look for cells here too.
    #[arg(long, value_name = "FOLDER")]
    pub cells: Vec<PathBuf>,
}

/// Flags of `report`.
#[derive(Args, Clone)]
pub struct ReportFlags {
    /// Files of rows, folders of studies, or - for standard input; several are read as one.
    #[arg(required = true, value_name = "ROWS")]
    pub rows: Vec<PathBuf>,
    /// table, markdown, csv or html.
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub format: String,
    /// Write here instead of to standard output.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// Flags of `compare`.
#[derive(Args, Clone)]
pub struct CompareFlags {
    /// Rows of the old state.
    pub old: PathBuf,
    /// Rows of the new state.
    pub new: PathBuf,
    /// Fail where this metric got worse by more: rss=5%; repeatable.
    #[arg(long, value_name = "METRIC=PERCENT")]
    pub gate: Vec<String>,
    /// What an undecided gate does to the exit code: fail, or pass.
    #[arg(long, value_name = "OUTCOME", default_value = "fail", value_parser = ["fail", "pass"])]
    pub undecided: String,
    /// Metrics to compare (`allocanary list metrics`); those of gates are added.
    #[arg(long, value_name = "METRIC", value_delimiter = ',', default_values = ["rss", "peak"])]
    pub metrics: Vec<String>,
}

/// Flags of `doctor`.
#[derive(Args, Clone, Default)]
pub struct DoctorFlags {
    /// Look at this process instead: its allocator, memory, environment and limits.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        Line::command().debug_assert();
    }
}
