//! The command line. In: what the user typed. Out: plain values. The only file that knows clap.

mod build;
mod examples;
mod give_back;
mod heap;
mod http;
mod output;
mod program;
mod traces;
mod values;
mod who;

pub use build::BuildFlags;
pub use examples::GLOSSARY;
pub use give_back::GiveBackFlags;
pub use heap::HeapFlags;
pub use output::{OutputFlags, TableFlags};
pub use program::{ProgramFlags, ProgramStudyFlags, ServiceFlags};
pub use traces::{PaceFlags, RecordFlags, ReplayFlags, TraceFlags};
#[cfg(test)]
pub use values::PARTS;
pub use who::WhoFlags;

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use allocanary_report::production::Place;
use allocanary_study::StudyFile;
use examples::{
    BUILD_EXAMPLES, COMPARE_EXAMPLES, COMPLETIONS_EXAMPLES, DOCTOR_EXAMPLES, EXAMPLES, GIVE_BACK_EXAMPLES,
    HEAP_EXAMPLES, LIST_EXAMPLES, MAN_EXAMPLES, PLAN_EXAMPLES, PRELOAD_EXAMPLES, RECORD_EXAMPLES, REPLAY_EXAMPLES,
    REPORT_EXAMPLES, RUN_EXAMPLES, STUDY_EXAMPLES, TRACE_EXAMPLES, TUNE_EXAMPLES, WHO_EXAMPLES, glossary_with_examples,
    with_glossary,
};

/// Measure what each memory allocator costs a service as threads and cores grow.
///
/// Without a verb, the command measures the allocator that it was built with, under the configuration in its environment
/// variables. It prints resident memory for each number of threads.
#[derive(Parser)]
#[command(name = "allocanary", version, max_term_width = 100, args_conflicts_with_subcommands = true, after_help = EXAMPLES,
    after_long_help = with_glossary())]
struct Line {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    here: HereFlags,
}

#[derive(Subcommand)]
enum Verb {
    /// Compare allocators and their settings, with confidence intervals and verdicts.
    #[command(after_help = STUDY_EXAMPLES)]
    Study(StudyRunFlags),
    /// Run your own program under each allocator, and compare.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<ProgramStudyFlags>),
    /// Print the processes that a study starts and their expected duration; run nothing.
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(StudyFlags),
    /// List allocators, settings, workloads, meters, metrics, studies and formats.
    #[command(after_help = LIST_EXAMPLES)]
    List(ListFlags),
    /// Re-render a report from saved results.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(ReportFlags),
    /// Compare two results: each candidate is better, worse, equal or undecided.
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareFlags),
    /// Diagnose how this host affects each allocator, or inspect a process.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorFlags),
    /// Take the memory of a running process apart: live, cached, fragmentation, free pages kept.
    #[command(after_help = HEAP_EXAMPLES)]
    Heap(HeapFlags),
    /// Have a running process give free memory back, without a restart.
    #[command(after_help = GIVE_BACK_EXAMPLES)]
    GiveBack(GiveBackFlags),
    /// Print where an allocator's preload is, and the lines that put it into a container or a service.
    #[command(after_help = PRELOAD_EXAMPLES)]
    Preload(PreloadFlags),
    /// Build a preload of another allocator or version, once, from its published crate.
    #[command(after_help = BUILD_EXAMPLES)]
    Build(BuildFlags),
    /// Record a program's allocations, once, to replay them under every allocator.
    #[command(after_help = RECORD_EXAMPLES)]
    Record(RecordFlags),
    /// Show what a recorded trace tells by itself.
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(TraceFlags),
    /// Name the call sites of a trace: whose blocks are live, and whose few survivors pin pages.
    #[command(after_help = WHO_EXAMPLES)]
    Who(WhoFlags),
    /// Compare allocators under a recorded trace.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayFlags),
    /// Find the settings that cost a workload the least; prove them, and print the lines to paste.
    #[command(after_help = TUNE_EXAMPLES, mut_args(tunes_own))]
    Tune(Box<TuneFlags>),
    /// Print the words that all outputs use.
    #[command(after_help = glossary_with_examples())]
    Glossary,
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell to write the script for.
        shell: Shell,
    },
    /// Print a manual page in roff format, or write all pages to a folder.
    #[command(after_help = MAN_EXAMPLES)]
    Man(ManFlags),
}

/// What the user wants done.
pub enum Task {
    /// Measure this build's allocator.
    Here(HereFlags),
    /// Run a study.
    Study(StudyRunFlags),
    /// Run the user's program.
    Run(Box<ProgramStudyFlags>),
    /// Print a study's plan.
    Plan(StudyFlags),
    /// List what can be chosen.
    List(ListFlags),
    /// Render a report from rows.
    Report(ReportFlags),
    /// Compare the rows of two runs.
    Compare(CompareFlags),
    /// Diagnose this host, or inspect a process.
    Doctor(DoctorFlags),
    /// Take a process's memory apart.
    Heap(HeapFlags),
    /// Have a process give memory back.
    GiveBack(GiveBackFlags),
    /// Print a preload's place and its lines.
    Preload(PreloadFlags),
    /// Build a preload of another version.
    Build(BuildFlags),
    /// Record a program.
    Record(RecordFlags),
    /// Show a trace.
    Trace(TraceFlags),
    /// Name the call sites of a trace.
    Who(WhoFlags),
    /// Replay a trace.
    Replay(ReplayFlags),
    /// Search for better settings.
    Tune(Box<TuneFlags>),
    /// Print the words of all outputs.
    Glossary,
    /// Write a completion script.
    Completions(Shell),
    /// Write a manual page, or all.
    Man(ManFlags),
    /// Write help or version.
    Text {
        /// For a file or a pipe.
        plain: String,
        /// For a terminal.
        colored: String,
    },
}

/// Reads the command line. On a mistake clap prints the error and ends the process. Help and version are returned as
/// texts, because clap would ignore a failure to write them.
pub fn parse() -> Task {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(text) if matches!(text.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let text = text.render();
            return Task::Text { plain: text.to_string(), colored: text.ansi().to_string() };
        }
        Err(mistake) => with_hint(mistake, std::env::args().nth(1).as_deref()).exit(),
    };
    match line.verb {
        None => Task::Here(line.here),
        Some(Verb::Study(flags)) => Task::Study(flags),
        Some(Verb::Run(flags)) => Task::Run(flags),
        Some(Verb::Plan(flags)) => Task::Plan(flags),
        Some(Verb::List(flags)) => Task::List(flags),
        Some(Verb::Report(flags)) => Task::Report(flags),
        Some(Verb::Compare(flags)) => Task::Compare(flags),
        Some(Verb::Doctor(flags)) => Task::Doctor(flags),
        Some(Verb::Heap(flags)) => Task::Heap(flags),
        Some(Verb::GiveBack(flags)) => Task::GiveBack(flags),
        Some(Verb::Preload(flags)) => Task::Preload(flags),
        Some(Verb::Build(flags)) => Task::Build(flags),
        Some(Verb::Record(flags)) => Task::Record(flags),
        Some(Verb::Trace(flags)) => Task::Trace(flags),
        Some(Verb::Who(flags)) => Task::Who(flags),
        Some(Verb::Replay(flags)) => Task::Replay(flags),
        Some(Verb::Tune(flags)) => Task::Tune(flags),
        Some(Verb::Glossary) => Task::Glossary,
        Some(Verb::Completions { shell }) => Task::Completions(shell),
        Some(Verb::Man(flags)) => Task::Man(flags),
    }
}

/// A mistake with what to do, if a program stands where it is not looked for: `run python3 x.py`.
fn with_hint(mut mistake: clap::Error, verb: Option<&str>) -> clap::Error {
    let Some(verb) = verb.filter(|verb| ["run", "record"].contains(verb)) else { return mistake };
    let found = match mistake.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(found)) if mistake.kind() == ErrorKind::UnknownArgument => found.clone(),
        _ => return mistake,
    };
    if !found.starts_with('-') {
        let hint = format!("a program and its arguments come after `--`: allocanary {verb} -- {found} ...");
        mistake.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    mistake
}

/// A completion script for a shell.
pub fn completions(shell: Shell) -> Vec<u8> {
    let (mut script, mut command) = (Vec::new(), Line::command());
    clap_complete::generate(shell, &mut command, "allocanary", &mut script);
    if shell == Shell::Fish {
        script.extend(values::fish(&command).bytes());
    }
    script
}

/// Every manual page: the file's name, `allocanary-study.1`, and its text. The first is the command's own.
pub fn manuals() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = Line::command().disable_help_subcommand(true);
    command.build();
    let verbs = command.get_subcommands().cloned().collect::<Vec<_>>();
    let page = |command: clap::Command| {
        let man = clap_mangen::Man::new(command);
        let mut text = Vec::new();
        man.render(&mut text)?;
        Ok((man.get_filename(), text))
    };
    std::iter::once(command).chain(verbs).map(page).collect()
}

/// The names of all verbs.
fn verb_names() -> impl Iterator<Item = &'static str> {
    [
        "study",
        "run",
        "plan",
        "list",
        "report",
        "compare",
        "doctor",
        "heap",
        "give-back",
        "preload",
        "build",
        "record",
        "trace",
        "who",
        "replay",
        "tune",
        "glossary",
        "completions",
        "man",
    ]
    .into_iter()
}

/// The flags of `study` that have another meaning or default in `tune`.
fn tunes_own(flag: clap::Arg) -> clap::Arg {
    let text = match flag.get_id().as_str() {
        "workloads" => "Workload, such as server or server:live=64MiB,idle=500 [default: server]",
        "threads" => "Number of worker threads [default: 16; with --cores: N threads]",
        "cores" => "Emulate a host with N CPU cores: arenas are sized for N cores [default: off]",
        "repeats" => "Fresh rows for each finalist [default: 10]",
        "budget" => {
            "Time budget (90s, 10m) [default: 5m, or twice what the first race and the least proof take if that is more]"
        }
        _ => return flag,
    };
    flag.help(text)
}

/// What to measure: workloads, threads, cores, repeats, time limits.
#[derive(Args, Clone, Default)]
pub struct MeasureFlags {
    /// Workloads, such as server or server:live=64MiB,idle=500 [default: server].
    #[arg(long, value_name = "WORKLOAD", num_args = 1.., value_parser = values::workloads(), hide_possible_values = true)]
    workloads: Option<Vec<String>>,
    /// Numbers of worker threads [default: 1,4,16,64; with --cores: N threads].
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1..)]
    threads: Option<Vec<u32>>,
    /// Emulate hosts with N CPU cores: arenas are sized for N cores [default: off].
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1..)]
    cores: Option<Vec<u32>>,
    /// Repeats: fresh processes for each candidate, workload and size [default: 10].
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// Random seed for run order and workloads [default: 1].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Time budget (90s, 5m): no round starts that would end after it [default: none].
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Time limit of one process: a slower one is killed [default: 60s].
    #[arg(long, value_name = "TIME")]
    deadline: Option<String>,
}

impl MeasureFlags {
    /// The flags as the fields of a study file.
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

/// Where cells are found and where results are written.
#[derive(Args, Clone, Default)]
pub struct RunFlags {
    /// Output: a folder, a file (*.jsonl), or - for rows on standard output.
    ///
    /// A folder gets the rows, the study and a report with pictures. A file or - gets the rows alone. Default: a new folder
    /// `allocanary-out/NAME-1`, `-2` and so on, named after the study.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub out: Option<String>,
    /// Extra folder to search for cells first; may be repeated.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub cells: Vec<PathBuf>,
    /// Write the files that bring the answer to a place: kubernetes, docker, systemd or rust [default: none].
    ///
    /// They are in a folder of that name below the results: a patch and an image for an init container, a layer, a drop-in of a
    /// unit, or lines of Rust; with the stripped library, if it needs one.
    #[arg(long, value_name = "PLACE", value_parser = values::place())]
    pub lines: Option<Place>,
}

/// Flags of the command without a verb.
#[derive(Args, Clone, Default)]
pub struct HereFlags {
    /// What to measure.
    #[command(flatten)]
    pub measure: MeasureFlags,
    /// Where to find cells and where to write results.
    #[command(flatten)]
    pub run: RunFlags,
}

/// Flags of `study` and `plan`.
#[derive(Args, Clone, Default)]
pub struct StudyFlags {
    /// A TOML file, or a shipped study; `cases` runs six of them [default: default].
    #[arg(value_name = "STUDY", value_parser = values::studies(), hide_possible_values = true)]
    pub study: Option<String>,
    /// Allocators with settings, such as system jemalloc:narenas=1,tcache=false.
    ///
    /// The first candidate is the baseline: the others are compared with it. Default: the candidates of the study.
    #[arg(long, value_name = "CANDIDATE", num_args = 1.., value_parser = values::candidates(), hide_possible_values = true)]
    candidates: Option<Vec<String>>,
    /// What to measure.
    #[command(flatten)]
    pub measure: MeasureFlags,
    /// Where to find cells and where to write results.
    #[command(flatten)]
    pub run: RunFlags,
    /// Run every large size that fits in memory [default: off].
    ///
    /// The shipped cases have large sizes. A study file defines them in `[[full]]` tables.
    #[arg(long)]
    pub full: bool,
    /// Continue an interrupted study: run what is missing or failed [default: off].
    ///
    /// --out names the folder or the file of the study.
    #[arg(long)]
    pub resume: bool,
}

impl StudyFlags {
    /// The path that --out names, if any.
    pub fn out_folder(&self) -> Option<PathBuf> {
        self.run.out.as_ref().map(PathBuf::from)
    }

    /// The flags as the fields of a study file.
    pub fn file(&self) -> StudyFile {
        StudyFile { candidates: self.candidates.clone(), ..self.measure.file() }
    }
}

/// Flags of `study`.
#[derive(Args, Clone, Default)]
pub struct StudyRunFlags {
    /// Which study.
    #[command(flatten)]
    pub study: StudyFlags,
    /// What is printed.
    #[command(flatten)]
    pub tables: TableFlags,
}

/// Flags of `list`.
#[derive(Args, Clone, Default)]
pub struct ListFlags {
    /// The part to list, such as settings [default: all parts].
    ///
    /// Parts: allocators, settings, workloads, meters, metrics, studies, formats.
    #[arg(value_parser = values::parts(), hide_possible_values = true)]
    pub what: Option<String>,
    /// Extra folder to search for cells first; may be repeated.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub cells: Vec<PathBuf>,
}

/// Flags of `report`.
#[derive(Args, Clone)]
pub struct ReportFlags {
    /// Result files (*.jsonl), study folders, or - for standard input.
    ///
    /// Several are read as one result: one report can show many hosts.
    #[arg(required = true, value_name = "ROWS", value_hint = ValueHint::AnyPath)]
    pub rows: Vec<PathBuf>,
    /// Format of the report: table, markdown, csv, html or json.
    #[arg(long, default_value = "table", value_name = "FORMAT", value_parser = values::formats(), hide_possible_values = true)]
    pub format: String,
    /// File to write the report to [default: standard output].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub to: Option<PathBuf>,
    /// The columns of a table: metrics, or all [default: those that decide; all if the terminal has 120 columns].
    #[arg(long, value_name = "METRIC,...", value_delimiter = ',')]
    pub columns: Vec<String>,
}

/// Flags of `compare`.
#[derive(Args, Clone)]
pub struct CompareFlags {
    /// Results before the change: a file (*.jsonl) or a study folder.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub old: PathBuf,
    /// Results after the change: a file (*.jsonl) or a study folder.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub new: PathBuf,
    /// Fail if METRIC clearly got worse by more than PERCENT; may be repeated [default: none].
    ///
    /// METRIC is judged by its median. METRIC.p90 is the value that 90 % of the runs stay within.
    #[arg(long, value_name = "METRIC=PERCENT")]
    pub gate: Vec<String>,
    /// Whether a gate that the samples leave open counts as fail or pass.
    #[arg(long, value_name = "OUTCOME", default_value = "fail", value_parser = ["fail", "pass"])]
    pub undecided: String,
    /// Metrics to compare, and those of the gates (see `allocanary list metrics`).
    #[arg(long, value_name = "METRIC", value_delimiter = ',', default_values = ["rss", "peak"])]
    #[arg(value_parser = values::metrics(), hide_possible_values = true)]
    pub metrics: Vec<String>,
    /// Format: table, markdown, json, or github (annotations, and the job's summary in Markdown).
    ///
    /// --json is --format json. Neither that nor --short goes with --format.
    #[arg(long, default_value = "table", value_name = "FORMAT", value_parser = ["table", "markdown", "json", "github"])]
    #[arg(conflicts_with_all = ["short", "json"])]
    pub format: String,
    /// What is printed.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// Flags of `doctor`.
#[derive(Args, Clone, Default)]
pub struct DoctorFlags {
    /// Inspect this process, by its process ID or its name [default: this host].
    ///
    /// What is shown: allocator, memory, environment, limits. `--pid PID` does the same as the process ID alone.
    #[arg(value_name = "PROCESS", conflicts_with = "pid")]
    pub process: Option<String>,
    /// As PROCESS: the flag of earlier versions. `heap` and `give-back` take the process in the same way as `doctor` does.
    #[arg(long, value_name = "PID", hide = true)]
    pub pid: Option<u32>,
    /// What is printed.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// Flags of `preload`.
#[derive(Args, Clone)]
pub struct PreloadFlags {
    /// The allocator: system, jemalloc or mimalloc.
    #[arg(value_name = "ALLOCATOR")]
    pub allocator: String,
    /// Settings as in install!, such as 'tuned,idle=100ms' or 'narenas=per_cpu(1)' [default: none].
    #[arg(long, value_name = "SETTINGS", default_value = "", hide_default_value = true)]
    pub settings: String,
}

/// Flags of `tune`.
#[derive(Args, Clone, Default)]
pub struct TuneFlags {
    /// A trace of `allocanary record`, or a study file (*.toml) [default: a built-in workload].
    ///
    /// A program stands after `--`.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// What shall be less: memory, cpu or p99.
    #[arg(long, value_name = "OBJECTIVE", default_value = "memory")]
    pub objective: String,
    /// What may get worse, and by how much [default: throughput=5%,p99=20%; of a program that ends wall=5%,cpu=20%].
    ///
    /// A list that you give replaces the default: metrics that it does not name are not limited.
    #[arg(long, value_name = "METRIC=PERCENT", value_delimiter = ',')]
    pub within: Option<Vec<String>>,
    /// Allocators to search [default: all that have a cell, or all preloads].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', num_args = 1..)]
    pub allocators: Option<Vec<String>>,
    /// What you have now, such as jemalloc:narenas=2.
    ///
    /// Default: of a program what it brings (own), of a trace system, otherwise this command's allocator.
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

/// Flags of `man`.
#[derive(Args, Clone, Default)]
pub struct ManFlags {
    /// The verb whose page to print, such as study [default: the command's own page].
    #[arg(value_parser = values::verbs(), hide_possible_values = true)]
    pub verb: Option<String>,
    /// Write the pages of the command and of all verbs to this folder, such as man/man1.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, conflicts_with = "verb")]
    pub to: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        Line::command().debug_assert();
        let command = Line::command();
        let verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(verbs, verb_names().collect::<Vec<_>>());
    }

    /// One table of words, in two places.
    #[test]
    fn the_glossary_is_that_of_the_documentation() {
        let page = include_str!("../docs/answers.md");
        let rows =
            page.split_once("\n## Words\n").expect("the section").1.lines().filter(|line| line.starts_with("| "));
        let rows = rows.skip(1).map(|row| {
            let (word, meaning) = row.trim_matches([' ', '|']).split_once(" | ").expect("two cells");
            format!("  {word:<11} {}", meaning.replace('`', ""))
        });
        let words = GLOSSARY.lines().skip(1).map(|line| line.replace('`', ""));
        assert_eq!(rows.collect::<Vec<_>>(), words.collect::<Vec<_>>(), "docs/answers.md and src/args/examples.rs");
    }

    #[test]
    fn a_program_without_dashes_is_told_where_it_belongs() {
        let said = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let mistake = Line::try_parse_from(&words).err().expect("it is a mistake");
            with_hint(mistake, words.get(1).copied()).to_string()
        };
        let run = said("allocanary run python3 x.py");
        assert!(run.contains("come after `--`: allocanary run -- python3 ..."), "{run}");
        let record = said("allocanary record ./service");
        assert!(record.contains("allocanary record -- ./service ..."), "{record}");
        assert!(!said("allocanary run --repeat 3").contains("come after"), "a flag is no program");
        assert!(!said("allocanary study a b").contains("come after"));
    }

    /// One way to say it: of two that differ, neither may win without a word.
    #[test]
    fn compare_takes_one_format() {
        let refused = |line: &str| match Line::try_parse_from(line.split(' ')) {
            Ok(_) => false,
            Err(mistake) => {
                assert_eq!(mistake.kind(), ErrorKind::ArgumentConflict, "{mistake}");
                true
            }
        };
        for flag in ["--json", "--short"] {
            for format in ["table", "markdown", "json", "github"] {
                assert!(refused(&format!("allocanary compare a b {flag} --format {format}")), "{flag} {format}");
            }
            assert!(!refused(&format!("allocanary compare a b {flag}")), "the default format is no second way");
        }
        assert!(refused("allocanary compare a b --json --short") && !refused("allocanary compare a b --format github"));
    }

    /// The help and the documentation teach one way to name a process.
    #[test]
    fn doctor_teaches_the_process_and_takes_the_flag_too() {
        let taken = |line: &str| match Line::try_parse_from(line.split(' ')).map(|line| line.verb) {
            Ok(Some(Verb::Doctor(flags))) => (flags.process, flags.pid),
            _ => panic!("{line}: it is taken"),
        };
        assert_eq!(taken("allocanary doctor 4242"), (Some("4242".into()), None));
        assert_eq!(taken("allocanary doctor redis-server"), (Some("redis-server".into()), None));
        assert_eq!(taken("allocanary doctor --pid 4242"), (None, Some(4242)));
        let pages = [
            ("README.md", include_str!("../README.md")),
            ("docs/preloads.md", include_str!("../docs/preloads.md")),
            ("docs/shipping.md", include_str!("../docs/shipping.md")),
            ("docs/tuning.md", include_str!("../docs/tuning.md")),
            ("src/args/examples.rs", include_str!("args/examples.rs")),
        ];
        for (name, text) in pages {
            assert!(!text.contains("doctor --pid"), "{name}: `doctor PROCESS` is the way that is taught");
        }
    }

    #[test]
    fn a_default_that_tune_has_of_its_own_is_in_its_help() {
        let command = Line::command();
        let help = |verb: &str, flag: &str| {
            let verb = command.find_subcommand(verb).unwrap();
            let flag = verb.get_arguments().find(|known| known.get_id() == flag).unwrap();
            flag.get_help().unwrap().to_string()
        };
        for (flag, default) in [("threads", "[default: 16;"), ("budget", "[default: 5m,"), ("repeats", "finalist")] {
            assert!(help("tune", flag).contains(default) && !help("study", flag).contains(default), "{flag}");
        }
    }
}
