//! The verbs of the command, one entry each. In: the command line. Out: an exit code.

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser};

use crate::args::examples::{
    BUILD_EXAMPLES, COMPARE_EXAMPLES, COMPLETIONS_EXAMPLES, DOCTOR_EXAMPLES, EXAMPLES, GIVE_BACK_EXAMPLES,
    HEAP_EXAMPLES, LIST_EXAMPLES, MAN_EXAMPLES, PLAN_EXAMPLES, PRELOAD_EXAMPLES, RECORD_EXAMPLES, REPLAY_EXAMPLES,
    REPORT_EXAMPLES, RUN_EXAMPLES, STUDY_EXAMPLES, TRACE_EXAMPLES, TUNE_EXAMPLES, UPGRADE_EXAMPLES, WHO_EXAMPLES,
    glossary_with_examples, with_glossary,
};
use crate::args::values::Offered;
use crate::args::{
    BuildFlags, CompareFlags, CompletionsFlags, DoctorFlags, GiveBackFlags, GlossaryFlags, HeapFlags, HereFlags,
    ListFlags, ManFlags, PreloadFlags, ProgramStudyFlags, RecordFlags, ReplayFlags, ReportFlags, StudyFlags,
    StudyRunFlags, TraceFlags, TuneFlags, UpgradeFlags, WhoFlags,
};
use crate::commands::{
    build, compare, completions, doctor, give_back, glossary, heap, here, list, man, plan, preload, record, replay,
    report, run, study, terminal, trace, tune, upgrade, who,
};
use allocanary_error::Result;

/// A verb.
struct Verb {
    /// Its name on the command line.
    name: &'static str,
    /// What it does, in one sentence.
    about: &'static str,
    /// What its help ends with.
    examples: fn() -> String,
    /// Adds its flags.
    takes: fn(Command) -> Command,
    /// Carries it out.
    run: fn(&ArgMatches) -> Result<ExitCode>,
}

/// An entry: name, sentence, the end of its help, its flags, and the function that takes them.
macro_rules! verb {
    ($name:literal, $about:literal, $examples:expr, $flags:ty, $run:expr) => {
        Verb {
            name: $name,
            about: $about,
            examples: || $examples.into(),
            takes: <$flags>::augment_args,
            run: |found| {
                let flags = <$flags>::from_arg_matches(found).unwrap_or_else(|mistake| mistake.exit());
                let run: fn(&$flags) -> Result<ExitCode> = $run;
                run(&flags)
            },
        }
    };
}

/// Every verb, in the order of the help.
static ALL: &[Verb] = &[
    verb!(
        "study",
        "Compare allocators and their settings, with confidence intervals and verdicts",
        STUDY_EXAMPLES,
        StudyRunFlags,
        study::run
    ),
    verb!("run", "Run your own program under each allocator, and compare", RUN_EXAMPLES, ProgramStudyFlags, run::run),
    verb!(
        "upgrade",
        "Run your own programs under two versions of an allocator, and say whether to upgrade",
        UPGRADE_EXAMPLES,
        UpgradeFlags,
        upgrade::run
    ),
    verb!(
        "plan",
        "Print the processes that a study starts and their expected duration; run nothing",
        PLAN_EXAMPLES,
        StudyFlags,
        plan::run
    ),
    verb!(
        "list",
        "List allocators, settings, workloads, meters, metrics, studies and formats",
        LIST_EXAMPLES,
        ListFlags,
        list::run
    ),
    verb!("report", "Re-render a report from saved results", REPORT_EXAMPLES, ReportFlags, report::run),
    verb!(
        "compare",
        "Compare two results: each candidate is better, worse, equal or undecided",
        COMPARE_EXAMPLES,
        CompareFlags,
        compare::run
    ),
    verb!(
        "doctor",
        "Diagnose how this host affects each allocator, or inspect a process",
        DOCTOR_EXAMPLES,
        DoctorFlags,
        doctor::run
    ),
    verb!(
        "heap",
        "Take the memory of a running process apart: live, cached, fragmentation, free pages kept",
        HEAP_EXAMPLES,
        HeapFlags,
        heap::run
    ),
    verb!(
        "give-back",
        "Have a running process give free memory back, without a restart",
        GIVE_BACK_EXAMPLES,
        GiveBackFlags,
        give_back::run
    ),
    verb!(
        "preload",
        "Print where an allocator's preload is, and the lines that put it into a container or a service",
        PRELOAD_EXAMPLES,
        PreloadFlags,
        preload::run
    ),
    verb!(
        "build",
        "Build a preload of another allocator or version, once, from its published crate",
        BUILD_EXAMPLES,
        BuildFlags,
        build::run
    ),
    verb!(
        "record",
        "Record a program's allocations, once, to replay them under every allocator",
        RECORD_EXAMPLES,
        RecordFlags,
        record::run
    ),
    verb!("trace", "Show what a recorded trace tells by itself", TRACE_EXAMPLES, TraceFlags, trace::run),
    verb!(
        "who",
        "Name the call sites of a trace: whose blocks are live, and whose few survivors pin pages",
        WHO_EXAMPLES,
        WhoFlags,
        who::run
    ),
    verb!("replay", "Compare allocators under a recorded trace", REPLAY_EXAMPLES, ReplayFlags, replay::run),
    verb!(
        "tune",
        "Find the settings that cost a workload the least; prove them, and print the lines to paste",
        TUNE_EXAMPLES,
        TuneFlags,
        tune::run
    ),
    verb!("glossary", "Print the words that all outputs use", glossary_with_examples(), GlossaryFlags, glossary::run),
    verb!("completions", "Print a completion script for a shell", COMPLETIONS_EXAMPLES, CompletionsFlags, |flags| {
        completions::run(flags, command())
    }),
    // The shell is offered the verbs.
    Verb {
        takes: |command| ManFlags::augment_args(command).mut_arg("verb", |verb| verb.value_parser(offered())),
        ..verb!(
            "man",
            "Print a manual page in roff format, or write all pages to a folder",
            MAN_EXAMPLES,
            ManFlags,
            |flags| man::run(flags, command())
        )
    },
];

/// Measure what each memory allocator costs a service as threads and cores grow.
///
/// Without a verb, the command measures the allocator that it was built with, under the configuration in its environment
/// variables. It prints resident memory for each number of threads.
#[derive(Parser)]
#[command(name = "allocanary", version, max_term_width = 100, args_conflicts_with_subcommands = true, after_help = EXAMPLES,
    after_long_help = with_glossary())]
struct Line {
    #[command(flatten)]
    here: HereFlags,
}

/// The whole command line.
fn command() -> Command {
    Line::command().subcommands(ALL.iter().map(|verb| {
        let command = (verb.takes)(Command::new(verb.name));
        command.about(verb.about).long_about(None).after_help((verb.examples)())
    }))
}

/// The names of the verbs.
fn offered() -> Offered {
    Offered::of(ALL.iter().map(|verb| verb.name))
}

/// Reads the command line and carries it out. The exit code is 0 for success, 1 if a cell or a gate failed, 130 if the user
/// interrupted; an error is 2. On a mistake clap prints the error and ends the process.
pub fn carry_out() -> Result<ExitCode> {
    let found = match command().try_get_matches() {
        Ok(found) => found,
        // Printed here, because clap would ignore a failure to write them.
        Err(text) if matches!(text.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let text = text.render();
            let shown = if terminal::look().color { text.ansi().to_string() } else { text.to_string() };
            return terminal::print(shown.as_bytes());
        }
        Err(mistake) => with_hint(mistake, std::env::args_os().nth(1).as_deref().and_then(OsStr::to_str)).exit(),
    };
    match found.subcommand() {
        Some((name, flags)) => {
            let verb = ALL.iter().find(|verb| verb.name == name).expect("clap knows these alone");
            (verb.run)(flags)
        }
        None => {
            let line = Line::from_arg_matches(&found).unwrap_or_else(|mistake| mistake.exit());
            here::run(&line.here)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_program_without_dashes_is_told_where_it_belongs() {
        let said = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let mistake = command().try_get_matches_from(&words).expect_err("it is a mistake");
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
        let refused = |line: &str| match command().try_get_matches_from(line.split(' ')) {
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
        let taken = |line: &str| {
            let found = command().try_get_matches_from(line.split(' ')).unwrap();
            let (_, flags) = found.subcommand().unwrap();
            let flags = DoctorFlags::from_arg_matches(flags).unwrap();
            (flags.process, flags.pid)
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
        let command = command();
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
