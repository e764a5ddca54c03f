use std::collections::BTreeMap;

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
    let verb = said("allocanary hepa 1");
    assert!(verb.contains("`hepa` is no verb, so it was taken for a process: perhaps allocanary heap 1 ..."), "{verb}");
    assert!(!said("allocanary haproxy 1").contains("perhaps"), "a name that only looks alike");
}

/// The first help fits completely on a screen of 80 columns and 24 lines.
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

/// One idea has one name. This test fails for a flag that has another name for it.
#[test]
fn no_two_flags_have_one_idea() {
    const IDEAS: &[(&str, &str, &[&str])] = &[
        ("a time limit: of a reading", "timeout", &["deadline", "time-limit", "time_limit"]),
        ("a time limit: of a run", "run-timeout", &["run-deadline", "run-limit"]),
        ("a time limit: of waiting for a lock", "lock-timeout", &["patience", "wait"]),
        ("a file that is written", "output", &["html", "to", "file", "write"]),
        ("metrics", "metrics", &["columns", "metric-names"]),
        ("a file with a [program] table", "program", &["file", "service"]),
        ("allocators with settings", "candidates", &["allocators", "allocator", "candidate"]),
        ("a folder that is written", "out-dir", &["results", "folder", "dir"]),
        ("JSON", "json", &["as-json", "json-lines"]),
        ("processes per candidate", "repeats", &["runs", "repeat", "count"]),
        ("a process", "", &["pid", "process"]),
        ("rest before the memory is read", "settle", &["idle"]),
        ("again and again", "every", &["watch", "interval"]),
        ("a time limit: of a study", "time-budget", &["budget"]),
        ("a limit of memory: of the process that reads", "reader-memory", &["memory"]),
        ("a limit of memory: of the program", "memory-limit", &["limit"]),
        ("a limit of processors: of the program", "cpu-limit", &["cpus"]),
        ("processors that an allocator is told", "emulate-cpus", &["cores"]),
        ("a limit of processor time: of an agent", "cpu-percent", &["share"]),
        ("a limit of bytes: copied of a process", "copy-limit", &["copy"]),
        ("where lines to paste are for", "write-for", &["lines", "place"]),
        ("variables of an environment", "env", &["variables"]),
        ("settings of an allocator", "settings", &["set"]),
        ("differences that count as equal, or are allowed", "tolerance", &["within", "margin"]),
        ("one allocation of N", "sample", &["rate"]),
        ("one stack of N", "stack-sample", &["stacks"]),
    ];
    let line = command();
    for verb in line.get_subcommands().filter(|verb| !verb.is_hide_set()).chain([&line]) {
        for flag in verb.get_arguments().filter(|flag| !flag.is_hide_set()).filter_map(|flag| flag.get_long()) {
            let wrong = IDEAS.iter().find(|(_, _, others)| others.contains(&flag));
            assert_eq!(wrong, None, "{}: --{flag}", verb.get_name());
        }
    }
}

/// A flag of several verbs takes the same kind of value in each.
#[test]
fn no_flag_has_two_kinds_of_value() {
    // `who` and `try` judge one metric, so that `who` names it and `try` needs no name. `tune` finds the settings itself: a
    // comma is between its candidates, and not between settings.
    const OTHERWISE: &[(&str, &str)] = &[("who", "gate"), ("try", "tolerance"), ("tune", "candidates")];
    let line = command();
    let mut kinds = BTreeMap::new();
    for verb in line.get_subcommands().filter(|verb| !verb.is_hide_set()).chain([&line]) {
        for flag in verb.get_arguments() {
            let Some(name) = flag.get_long().filter(|name| !OTHERWISE.contains(&(verb.get_name(), name))) else {
                continue;
            };
            // clap gives a switch a name of a value, which no help shows.
            let takes = flag.get_action().takes_values();
            let value = flag.get_value_names().filter(|_| takes).map(|names| format!("{names:?}"));
            let first = kinds.entry(name.to_string()).or_insert_with(|| (value.clone(), verb.get_name().to_string()));
            assert_eq!(first.0, value, "--{name} of {} and of {}", first.1, verb.get_name());
        }
    }
    assert!(kinds.len() > 80, "{}", kinds.len());
}

/// There is one way to give each value. If two ways differ, neither may be ignored silently.
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

#[test]
fn a_default_that_tune_has_of_its_own_is_in_its_help() {
    let command = command();
    let help = |verb: &str, flag: &str| {
        let verb = command.find_subcommand(verb).unwrap();
        let flag = verb.get_arguments().find(|known| known.get_id() == flag).unwrap();
        flag.get_help().unwrap().to_string()
    };
    for (flag, default) in [("threads", "[default: 16;"), ("time_budget", "[default: 5m,"), ("repeats", "finalist")] {
        assert!(help("tune", flag).contains(default) && !help("study", flag).contains(default), "{flag}");
    }
}

/// The words of an example up to its comment, which two spaces precede, or up to what a shell does with its output.
fn words_of_example(line: &str) -> Vec<String> {
    let line = ["  ", " | ", " > ", " && "].iter().fold(line, |line, end| line.split(end).next().unwrap_or_default());
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_example_is_a_command_line() {
    let line = command();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for verb in line.get_subcommands().chain([&line]) {
        let text = verb.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        // A line that ends in a backslash goes on.
        let text = text.split("\\\n").map(str::trim_start).collect::<String>();
        let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
        for example in lines.map(|line| line.trim_start_matches("sudo ")).filter(|line| line.starts_with("allocanary "))
        {
            let words = words_of_example(example);
            count += 1;
            let Err(mistake) = command().try_get_matches_from(&words) else { continue };
            // A machine without a load generator is told so.
            if mistake.kind() != ErrorKind::DisplayHelp && !mistake.to_string().contains("found none on PATH") {
                wrong.push(format!("{}: {mistake}", words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty() && count > 100, "{count} examples: {}", wrong.join("\n"));
}
