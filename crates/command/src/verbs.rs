//! The verbs of the command, one entry each. In: the command line. Out: an exit code.

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, arg};

use crate::args::examples::{
    BUILD_EXAMPLES, COMPARE_EXAMPLES, COMPLETIONS_EXAMPLES, DOCTOR_EXAMPLES, FLEET_EXAMPLES, GIVE_BACK_EXAMPLES,
    HEAP_EXAMPLES, LIST_EXAMPLES, MAN_EXAMPLES, NODE_EXAMPLES, OVERVIEW, PRELOAD_EXAMPLES, RECORD_EXAMPLES,
    REPLAY_EXAMPLES, REPORT_EXAMPLES, RUN_EXAMPLES, STUDY_EXAMPLES, TRACE_EXAMPLES, TUNE_EXAMPLES, UPGRADE_EXAMPLES,
    WHO_EXAMPLES, glossary_with_examples, with_glossary,
};
use crate::args::values::Offered;
use crate::args::{
    BuildFlags, CompareFlags, CompletionsFlags, DoctorFlags, DoorFlags, FleetFlags, GiveBackFlags, GlossaryFlags,
    HeapFlags, HereFlags, ListFlags, ManFlags, NodeFlags, PreloadFlags, ProgramStudyFlags, RecordFlags, ReplayFlags,
    ReportFlags, StudyRunFlags, TraceFlags, TuneFlags, UpgradeFlags, WhoFlags,
};
use crate::commands::{
    build, compare, completions, doctor, door, fleet, give_back, glossary, heap, here, list, man, node, preload,
    record, replay, report, run, study, terminal, trace, tune, upgrade, who,
};
use crate::renamed::renamed;
use allocanary_error::{Error, Result};

/// What a verb is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Look,
    Measure,
    Ship,
    /// Listed by `--help` alone.
    More,
    /// Of earlier versions: it goes on working.
    Old,
}

impl Group {
    const SHOWN: [Group; 3] = [Group::Look, Group::Measure, Group::Ship];

    fn heading(self) -> &'static str {
        match self {
            Group::Look => "Look at a process",
            Group::Measure => "Measure before you deploy",
            Group::Ship => "Ship",
            Group::More => "More",
            Group::Old => "",
        }
    }
}

/// A verb.
struct Verb {
    /// Its name on the command line.
    name: &'static str,
    /// Where the first help lists it.
    group: Group,
    /// What it does, in one sentence.
    about: &'static str,
    /// The flags that its first help shows. `--help` shows all.
    first: &'static [&'static str],
    /// What its help ends with.
    examples: fn() -> String,
    /// Adds its flags.
    takes: fn(Command) -> Command,
    /// Carries it out.
    run: fn(&ArgMatches) -> Result<ExitCode>,
}

/// An entry: name, group, sentence, the flags of its first help, the end of its help, its flags, and the function that takes them.
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
        "Take the memory of a running process apart",
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
        "Name the call sites whose blocks are live, or pin pages",
        ["sort", "callers", "against"],
        WHO_EXAMPLES,
        WhoFlags,
        who::run
    ),
    verb!(
        "node",
        More,
        "Run the agent of a node: what allocators keep, as metrics",
        ["listen", "once", "kubelet"],
        NODE_EXAMPLES,
        NodeFlags,
        node::run
    ),
    verb!(
        "fleet",
        More,
        "Put the reports of many nodes into one table",
        ["json", "price", "to"],
        FLEET_EXAMPLES,
        FleetFlags,
        fleet::run
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
        "Find the best settings, prove them, and print the lines",
        ["budget"],
        TUNE_EXAMPLES,
        TuneFlags,
        tune::run
    ),
    verb!(
        "study",
        Measure,
        "Compare allocators under a workload of ours",
        ["candidates", "plan"],
        STUDY_EXAMPLES,
        StudyRunFlags,
        study::run
    ),
    verb!(
        "record",
        Measure,
        "Record a program's allocations, for `who` and `replay`",
        ["out", "stacks", "window"],
        RECORD_EXAMPLES,
        RecordFlags,
        record::run
    ),
    verb!(
        "replay",
        Measure,
        "Compare allocators under a recorded trace",
        ["candidates", "cores", "repeats"],
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
        "Have a running process give free memory back",
        ["dry_run", "yes", "every"],
        GIVE_BACK_EXAMPLES,
        GiveBackFlags,
        give_back::run
    ),
    verb!(
        "preload",
        Ship,
        "Print the lines that bring an allocator into a program",
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
    // The shell is offered the verbs.
    Verb {
        takes: |command| ManFlags::augment_args(command).mut_arg("verb", |verb| verb.value_parser(offered())),
        ..verb!(
            "man",
            More,
            "Print a manual page in roff format, or write all pages to a folder",
            ["to"],
            MAN_EXAMPLES,
            ManFlags,
            |flags| man::run(flags, command())
        )
    },
    verb!(
        "upgrade",
        Old,
        "Run your own programs under two versions of an allocator: `run --candidates A B` does it, too",
        ["from", "to", "program"],
        UPGRADE_EXAMPLES,
        UpgradeFlags,
        upgrade::run
    ),
];

/// What a process's memory is, what its allocator keeps, and what to do about it.
///
/// Without a process and a verb, a command that was built with one of the features `*-alloc` measures that allocator, under the
/// configuration in its environment variables: resident memory for each number of threads.
#[derive(Parser)]
#[command(
    name = "allocanary",
    version,
    max_term_width = 80,
    args_conflicts_with_subcommands = true,
    override_usage = "allocanary PROCESS        what its memory is, and what to do\n       \
    allocanary -- COMMAND     which verb answers what, of a program to start\n       allocanary VERB ..."
)]
struct Line {
    #[command(flatten)]
    door: DoorFlags,
    #[command(flatten)]
    here: HereFlags,
}

/// The verbs by what they are for.
fn overview(groups: &[Group]) -> String {
    let mut out = String::new();
    for group in groups {
        out.push_str(&format!("{}:\n", group.heading()));
        for verb in ALL.iter().filter(|verb| verb.group == *group) {
            out.push_str(&format!("  {:<12}{}\n", verb.name, verb.about));
        }
    }
    out
}

/// The first examples of a help text.
fn first_examples(text: &str) -> String {
    const MOST: usize = 2;
    let examples = text.split_once("Examples:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or_default());
    let mut out = String::from("Examples:\n");
    let mut count = 0;
    for line in examples.lines() {
        // What continues a line is indented further.
        count += usize::from(!line.starts_with("   "));
        if count > MOST {
            break;
        }
        out.push_str(&format!("{line}\n"));
    }
    out + "All flags, defaults and examples: --help"
}

/// The flag for help. A verb gets one of its own, because the command's own is in no first help.
fn help_flag() -> clap::Arg {
    arg!(-h --help "Print help (see more with '--help')").action(ArgAction::Help)
}

/// The whole command line.
fn command() -> Command {
    let of_door = DoorFlags::augment_args(Command::new(""));
    let is_of_door = |arg: &clap::Arg| of_door.get_arguments().any(|own| own.get_id() == arg.get_id());
    let measures = |arg: clap::Arg| arg.help_heading("Without a process and a verb");
    let line = Line::command()
        .mut_args(|arg| if is_of_door(&arg) { arg } else { measures(arg) })
        // The first help is one screen: its flags are a line.
        .mut_args(|arg| arg.hide_short_help(true))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(help_flag().hide_short_help(true))
        .arg(arg!(-V --version "Print the version").action(ArgAction::Version).hide_short_help(true))
        .before_help(overview(&Group::SHOWN) + "More verbs: node fleet build list trace glossary completions man\nFlags of PROCESS: --tree --short --json --to FILE. All flags: --help")
        .before_long_help(overview(&[Group::Look, Group::Measure, Group::Ship, Group::More]))
        .after_long_help(with_glossary())
        .help_template("{about-with-newline}{usage-heading} {usage}\n\n{before-help}{options}{after-help}");
    line.subcommands(ALL.iter().map(|verb| {
        let command = (verb.takes)(Command::new(verb.name).max_term_width(80));
        let is_first = |arg: &clap::Arg| arg.is_positional() || verb.first.iter().any(|name| arg.get_id() == *name);
        let command = command.mut_args(|arg| if is_first(&arg) { arg } else { arg.hide_short_help(true) });
        let examples = (verb.examples)();
        let command = command.disable_help_flag(true).arg(help_flag());
        let short = command.about(verb.about).long_about(None).after_help(first_examples(&examples));
        short.after_long_help(examples).hide(verb.group == Group::Old)
    }))
}

/// The names of the verbs.
fn offered() -> Offered {
    Offered::of(ALL.iter().map(|verb| verb.name))
}

/// The names of the verbs.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|verb| verb.name)
}

/// Reads the command line and carries it out. The exit code is 0 for success, 1 if a cell or a gate failed, 130 if the user
/// interrupted; an error is 2. On a mistake clap prints the error and ends the process.
pub fn carry_out() -> Result<ExitCode> {
    let words = std::env::args_os().map(|word| word.into_string());
    let found = match words.collect::<std::result::Result<Vec<String>, _>>() {
        Ok(words) => {
            let mut words = words.into_iter();
            let own = words.next();
            let (words, notices) = renamed(words.collect());
            notices.iter().for_each(terminal::tell);
            command().try_get_matches_from(own.into_iter().chain(words))
        }
        // A name that is no text is no flag of an earlier version.
        Err(_) => command().try_get_matches(),
    };
    let found = match found {
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
            let here = || match built_with_an_allocator() {
                true => here::run(&line.here),
                false => terminal::print_plain(OVERVIEW),
            };
            if line.door.process.is_some() || !line.door.command.is_empty() {
                refuse_measuring(&found)?;
            }
            door::run(&line.door).unwrap_or_else(here)
        }
    }
}

/// An error if a flag of a measurement stands beside a process: it would do nothing.
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

/// Whether one of the features is on that choose this command's allocator, as `cargo run --features=system-alloc` does. A command from a package
/// has none of them.
fn built_with_an_allocator() -> bool {
    crate::commands::features().split(',').any(|feature| feature.ends_with("-alloc"))
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

    /// Who asks for the first help sees it whole, on a screen of 80 by 24.
    #[test]
    fn the_first_help_of_each_verb_fits_a_screen() {
        let whole = command();
        let verbs: Vec<Command> = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
        let mut wrong = Vec::new();
        for mut verb in std::iter::once(whole).chain(verbs) {
            let (short, long) = (verb.render_help().to_string(), verb.render_long_help().to_string());
            if short.lines().count() > 24 {
                wrong.push(format!("{}: {} lines\n{short}", verb.get_name(), short.lines().count()));
            }
            let wide = short.lines().chain(long.lines()).find(|line| line.chars().count() > 80);
            wrong.extend(wide.map(|line| format!("{}: wider than 80 columns: {line}", verb.get_name())));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// One idea has one name. A flag of another name for it is a mistake here.
    #[test]
    fn no_two_flags_have_one_idea() {
        const IDEAS: &[(&str, &str, &[&str])] = &[
            ("a time limit", "timeout", &["deadline", "time-limit", "time_limit"]),
            ("a file that is written", "to", &["html", "output", "file", "write"]),
            ("metrics", "metrics", &["columns", "metric-names"]),
            ("a file with a [program] table", "program", &["file", "service"]),
            ("allocators with settings", "candidates", &["allocators", "allocator", "candidate"]),
            ("results, and where they are", "out", &["results", "folder", "dir"]),
            ("JSON", "json", &["as-json", "json-lines"]),
            ("processes per candidate", "repeats", &["runs", "repeat", "count"]),
            ("a process", "", &["pid", "process"]),
        ];
        let line = command();
        for verb in line.get_subcommands().filter(|verb| !verb.is_hide_set()).chain([&line]) {
            for flag in verb.get_arguments().filter(|flag| !flag.is_hide_set()).filter_map(|flag| flag.get_long()) {
                let wrong = IDEAS.iter().find(|(_, _, others)| others.contains(&flag));
                assert_eq!(wrong, None, "{}: --{flag}", verb.get_name());
            }
        }
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
