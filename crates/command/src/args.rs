//! The command line. In: what the user typed. Out: plain values. The only file that knows clap.

mod build;
mod compare;
mod doctor;
mod examples;
mod give_back;
mod heap;
mod http;
mod list;
mod man;
mod measure;
mod output;
mod preload;
mod program;
mod report;
mod study;
mod traces;
mod tune;
mod upgrade;
mod values;
mod who;

pub use build::BuildFlags;
pub use compare::CompareFlags;
pub use doctor::DoctorFlags;
pub use examples::GLOSSARY;
pub use give_back::GiveBackFlags;
pub use heap::HeapFlags;
pub use list::ListFlags;
pub use man::ManFlags;
pub use measure::{HereFlags, RunFlags};
pub use output::{OutputFlags, TableFlags};
pub use preload::PreloadFlags;
pub use program::ProgramStudyFlags;
pub use report::ReportFlags;
pub use study::{StudyFlags, StudyRunFlags};
pub use traces::{PaceFlags, RecordFlags, ReplayFlags, TraceFlags};
pub use tune::TuneFlags;
pub use upgrade::UpgradeFlags;
#[cfg(test)]
pub use values::PARTS;
pub use who::WhoFlags;

use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use examples::{
    BUILD_EXAMPLES, COMPARE_EXAMPLES, COMPLETIONS_EXAMPLES, DOCTOR_EXAMPLES, EXAMPLES, GIVE_BACK_EXAMPLES,
    HEAP_EXAMPLES, LIST_EXAMPLES, MAN_EXAMPLES, PLAN_EXAMPLES, PRELOAD_EXAMPLES, RECORD_EXAMPLES, REPLAY_EXAMPLES,
    REPORT_EXAMPLES, RUN_EXAMPLES, STUDY_EXAMPLES, TRACE_EXAMPLES, TUNE_EXAMPLES, UPGRADE_EXAMPLES, WHO_EXAMPLES,
    glossary_with_examples, with_glossary,
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
    /// Run your own programs under two versions of an allocator, and say whether to upgrade.
    #[command(after_help = UPGRADE_EXAMPLES)]
    Upgrade(Box<UpgradeFlags>),
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
    #[command(after_help = TUNE_EXAMPLES, mut_args(tune::tunes_own))]
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
    /// Compare two versions under the user's programs.
    Upgrade(Box<UpgradeFlags>),
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
        Err(mistake) => with_hint(mistake, std::env::args_os().nth(1).as_deref().and_then(OsStr::to_str)).exit(),
    };
    match line.verb {
        None => Task::Here(line.here),
        Some(Verb::Study(flags)) => Task::Study(flags),
        Some(Verb::Run(flags)) => Task::Run(flags),
        Some(Verb::Upgrade(flags)) => Task::Upgrade(flags),
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
    let Some(verb) = verb.filter(|verb| ["run", "upgrade", "record"].contains(verb)) else { return mistake };
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
        "upgrade",
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
        let page = include_str!("../../../docs/answers.md");
        let rows =
            page.split_once("\n## Words\n").expect("the section").1.lines().filter(|line| line.starts_with("| "));
        let rows = rows.skip(1).map(|row| {
            let (word, meaning) = row.trim_matches([' ', '|']).split_once(" | ").expect("two cells");
            format!("  {word:<11} {}", meaning.replace('`', ""))
        });
        let words = GLOSSARY.lines().skip(1).map(|line| line.replace('`', ""));
        assert_eq!(
            rows.collect::<Vec<_>>(),
            words.collect::<Vec<_>>(),
            "docs/answers.md and crates/command/src/args/examples.rs"
        );
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
            ("README.md", include_str!("../../../README.md")),
            ("docs/preloads.md", include_str!("../../../docs/preloads.md")),
            ("docs/shipping.md", include_str!("../../../docs/shipping.md")),
            ("docs/tuning.md", include_str!("../../../docs/tuning.md")),
            ("crates/command/src/args/examples.rs", include_str!("args/examples.rs")),
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
