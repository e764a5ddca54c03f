//! The verbs of the command, one entry each. In: the command line. Out: an exit code.

mod help;
mod verb;

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, arg};

use crate::args::examples::{
    BUILD_EXAMPLES, COMPARE_EXAMPLES, COMPLETIONS_EXAMPLES, DOCTOR_EXAMPLES, FLEET_EXAMPLES, GIVE_BACK_EXAMPLES,
    HEAP_EXAMPLES, KUBE_EXAMPLES, LIST_EXAMPLES, MAN_EXAMPLES, NODE_EXAMPLES, OVERVIEW, PRELOAD_EXAMPLES,
    RECORD_EXAMPLES, REPLAY_EXAMPLES, REPORT_EXAMPLES, RUN_EXAMPLES, STUDY_EXAMPLES, TRACE_EXAMPLES, TRY_EXAMPLES,
    TUNE_EXAMPLES, WHO_EXAMPLES, glossary_with_examples, with_glossary,
};
use crate::args::values::Offered;
use crate::args::{
    BuildFlags, CompareFlags, CompletionsFlags, DoctorFlags, DoorFlags, FleetFlags, GiveBackFlags, GlossaryFlags,
    HeapFlags, HereFlags, KubeFlags, ListFlags, ManFlags, NodeFlags, PreloadFlags, ProgramStudyFlags, RecordFlags,
    ReplayFlags, ReportFlags, StudyRunFlags, TraceFlags, TryFlags, TuneFlags, WhoFlags,
};
use crate::commands::{
    build, cells, compare, completions, doctor, door, fleet, give_back, glossary, heap, here, kube, list, man, node,
    preload, record, replay, report, run, study, terminal, trace, trial, tune, who,
};
use allocanary_rows::error::{Error, Result};
use allocanary_rows::mistyped;
use help::{first_examples, help_flag, overview};
use verb::{Group, Verb};

/// An entry of the table. In this order: name, group, sentence, the flags of its first help, the end of its help, its
/// flags, and the function that executes it.
macro_rules! verb {
    ($name:literal, $group:ident, $about:literal, $first:expr, $examples:expr, $flags:ty, $run:expr) => {
        Verb {
            name: $name,
            group: Group::$group,
            about: $about,
            first: &$first,
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
        "heap",
        Look,
        "Show all parts of the memory of a running process",
        ["contents", "tree", "save", "to"],
        HEAP_EXAMPLES,
        HeapFlags,
        heap::run
    ),
    verb!(
        "doctor",
        Look,
        "Diagnose settings: of a process, or of this host",
        ["json", "short"],
        DOCTOR_EXAMPLES,
        DoctorFlags,
        doctor::run
    ),
    verb!(
        "who",
        Look,
        "Name the functions that hold the memory, or pin pages",
        ["sort", "callers", "against"],
        WHO_EXAMPLES,
        WhoFlags,
        who::run
    ),
    verb!(
        "node",
        More,
        "Run the agent of a node, which exports metrics",
        ["listen", "once", "kubelet"],
        NODE_EXAMPLES,
        NodeFlags,
        node::run
    ),
    verb!(
        "fleet",
        More,
        "Show the reports of many nodes in one table",
        ["json", "price", "to"],
        FLEET_EXAMPLES,
        FleetFlags,
        fleet::run
    ),
    verb!(
        "try",
        More,
        "Give one replica other settings, and compare it with the others",
        ["env", "out_dir"],
        TRY_EXAMPLES,
        TryFlags,
        trial::run
    ),
    verb!(
        "kube",
        More,
        "Ask the agents of a cluster, as `kubectl allocanary`",
        ["namespace", "container"],
        KUBE_EXAMPLES,
        KubeFlags,
        kube::run
    ),
    verb!(
        "run",
        Measure,
        "Run your program under each allocator, and compare",
        ["candidates", "http", "repeats"],
        RUN_EXAMPLES,
        ProgramStudyFlags,
        run::run
    ),
    verb!(
        "tune",
        Measure,
        "Find the best settings, measure them, and print the lines",
        ["time_budget"],
        TUNE_EXAMPLES,
        TuneFlags,
        tune::run
    ),
    verb!(
        "study",
        Measure,
        "Compare allocators under a built-in workload",
        ["candidates", "plan"],
        STUDY_EXAMPLES,
        StudyRunFlags,
        study::run
    ),
    verb!(
        "record",
        Measure,
        "Record a program's allocations, for `who` and `replay`",
        ["out_dir", "stack_sample", "window"],
        RECORD_EXAMPLES,
        RecordFlags,
        record::run
    ),
    verb!(
        "replay",
        Measure,
        "Compare allocators under a recorded trace",
        ["candidates", "emulate_cpus", "repeats"],
        REPLAY_EXAMPLES,
        ReplayFlags,
        replay::run
    ),
    verb!(
        "compare",
        Measure,
        "Compare two results: better, worse, equal or undecided",
        ["gate", "metrics"],
        COMPARE_EXAMPLES,
        CompareFlags,
        compare::run
    ),
    verb!(
        "report",
        Measure,
        "Render saved results, or a trace, as a report",
        ["format", "to", "metrics"],
        REPORT_EXAMPLES,
        ReportFlags,
        report::run
    ),
    verb!(
        "give-back",
        Ship,
        "Give free memory of a running process back to the system",
        ["dry_run", "yes", "every"],
        GIVE_BACK_EXAMPLES,
        GiveBackFlags,
        give_back::run
    ),
    verb!(
        "preload",
        Ship,
        "Print the lines that put an allocator into a program",
        ["settings"],
        PRELOAD_EXAMPLES,
        PreloadFlags,
        preload::run
    ),
    verb!(
        "build",
        More,
        "Build another version of an allocator, from its published crate",
        ["again"],
        BUILD_EXAMPLES,
        BuildFlags,
        build::run
    ),
    verb!(
        "list",
        More,
        "List allocators, settings, workloads, meters, metrics, studies, formats",
        [],
        LIST_EXAMPLES,
        ListFlags,
        list::run
    ),
    verb!(
        "trace",
        More,
        "Check a recorded trace, or export its figures",
        ["format"],
        TRACE_EXAMPLES,
        TraceFlags,
        trace::run
    ),
    verb!(
        "glossary",
        More,
        "Print the words that all outputs use",
        [],
        glossary_with_examples(),
        GlossaryFlags,
        glossary::run
    ),
    verb!(
        "completions",
        More,
        "Print a completion script for a shell",
        [],
        COMPLETIONS_EXAMPLES,
        CompletionsFlags,
        |flags| completions::run(flags, command())
    ),
    // A shell offers the names of the verbs here.
    Verb {
        takes: |command| ManFlags::augment_args(command).mut_arg("verb", |verb| verb.value_parser(offered())),
        ..verb!(
            "man",
            More,
            "Print a manual page in roff format, or write all pages to a folder",
            ["out_dir"],
            MAN_EXAMPLES,
            ManFlags,
            |flags| man::run(flags, command())
        )
    },
];

/// What a process's memory is, what its allocator keeps, and what to do about it.
///
/// With flags of a measurement but no verb, such as `allocanary --repeats 10`, a command that was built with one of the features
/// `*-alloc` measures that allocator, under the configuration in its environment variables: resident memory for each number of
/// threads. `cargo run` does so without flags, too.
#[derive(Parser)]
#[command(
    name = "allocanary",
    version,
    max_term_width = 80,
    args_conflicts_with_subcommands = true,
    override_usage = "allocanary PROCESS        what its memory is, and what to do\n       \
    allocanary -- COMMAND     for a program to start: which verb to use\n       allocanary VERB ..."
)]
struct Line {
    #[command(flatten)]
    door: DoorFlags,
    #[command(flatten)]
    here: HereFlags,
}

/// The whole command line.
fn command() -> Command {
    let of_door = DoorFlags::augment_args(Command::new(""));
    let is_of_door = |arg: &clap::Arg| of_door.get_arguments().any(|own| own.get_id() == arg.get_id());
    let measures = |arg: clap::Arg| arg.help_heading("Without a process and a verb");
    let line = Line::command()
        .mut_args(|arg| if is_of_door(&arg) { arg } else { measures(arg) })
        // The first help fits on one screen: it shows all flags in one line.
        .mut_args(|arg| arg.hide_short_help(true))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(help_flag().hide_short_help(true))
        .arg(arg!(-V --version "Print the version").action(ArgAction::Version).hide_short_help(true))
        .before_help(overview(ALL, &Group::SHOWN) + "More verbs: node fleet try kube build list trace glossary completions man\nFlags of PROCESS: --tree --short --json --output FILE. All flags: --help")
        .before_long_help(overview(ALL, &[Group::Look, Group::Measure, Group::Ship, Group::More]))
        .after_long_help(with_glossary())
        .help_template("{about-with-newline}{usage-heading} {usage}\n\n{before-help}{options}{after-help}");
    line.subcommands(ALL.iter().map(|verb| {
        let command = (verb.takes)(Command::new(verb.name).max_term_width(80));
        let is_first = |arg: &clap::Arg| arg.is_positional() || verb.first.iter().any(|name| arg.get_id() == *name);
        let command = command.mut_args(|arg| if is_first(&arg) { arg } else { arg.hide_short_help(true) });
        let examples = (verb.examples)();
        let command = command.disable_help_flag(true).arg(help_flag());
        let short = command.about(verb.about).long_about(None).after_help(first_examples(&examples));
        short.after_long_help(examples)
    }))
}

/// The names of the verbs, as values that a shell offers.
fn offered() -> Offered {
    Offered::of(ALL.iter().map(|verb| verb.name))
}

/// Reads the command line and executes it. The exit code is 0 for success, 1 if a cell or a gate failed, 2 for an
/// error, and 130 if the user interrupted. If the command line is wrong, clap prints the error and ends the process.
pub fn carry_out() -> Result<ExitCode> {
    let found = match command().try_get_matches() {
        Ok(found) => found,
        // Help is printed here and not by clap, which would ignore a failure to write it.
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
            let here = || match built_with_an_allocator() && !is_bare() {
                true => here::run(&line.here),
                false => terminal::print_plain(OVERVIEW),
            };
            if line.door.process.is_some() || !line.door.command.is_empty() {
                refuse_measuring(&found)?;
            }
            let verbs: Vec<&str> = ALL.iter().map(|verb| verb.name).collect();
            door::run(&line.door, &verbs).unwrap_or_else(here)
        }
    }
}

/// Returns an error if a flag of a measurement is used with a process, because it would have no effect.
fn refuse_measuring(found: &ArgMatches) -> Result<()> {
    let flags = HereFlags::augment_args(Command::new(""));
    let given = |flag: &&clap::Arg| found.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine);
    match flags.get_arguments().find(given).and_then(clap::Arg::get_long) {
        Some(flag) => Err(Error::Input(format!(
            "--{flag}: is for a measurement; with a process or a program it does nothing: leave it out"
        ))),
        None => Ok(()),
    }
}

/// Whether this build has one of the features that choose the command's own allocator, as `cargo run
/// --features=system-alloc` does. A command from a package has none of them.
fn built_with_an_allocator() -> bool {
    crate::given::features().split(',').any(|feature| feature.ends_with("-alloc"))
}

/// Whether the command line has no word, and cargo did not start the command. `allocanary $(pgrep service)` has none either if there is
/// no such process. This must not start a measurement of some minutes.
fn is_bare() -> bool {
    std::env::args_os().len() < 2 && !cells::is_of_cargo()
}

/// Adds a hint to clap's error. `word` is the first word of the command line.
fn with_hint(mut mistake: clap::Error, word: Option<&str>) -> clap::Error {
    let hint = match (mistake.get(ContextKind::InvalidArg), word) {
        (Some(ContextValue::String(found)), Some(word)) if mistake.kind() == ErrorKind::UnknownArgument => {
            hint(word, found)
        }
        _ => None,
    };
    if let Some(hint) = hint {
        mistake.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    mistake
}

/// The hint if a program was given without `--`, as in `run python3 x.py`, or if a verb is mistyped, as in `hepa 1`. `found` is the word
/// that clap did not expect.
fn hint(word: &str, found: &str) -> Option<String> {
    if ["run", "record"].contains(&word) {
        let is_program = !found.starts_with('-');
        return is_program
            .then(|| format!("a program and its arguments come after `--`: allocanary {word} -- {found} ..."));
    }
    let verb = mistyped(word, ALL.iter().map(|verb| verb.name)).filter(|verb| *verb != word)?;
    Some(format!("`{word}` is no verb, so it was taken for a process: perhaps allocanary {verb} {found} ..."))
}

#[cfg(test)]
mod tests;
