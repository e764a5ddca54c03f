//! The parts of help texts that are made from the table of verbs.

use clap::{ArgAction, arg};

use super::verb::{Group, Verb};

/// The verbs, in groups.
pub fn overview(all: &[Verb], groups: &[Group]) -> String {
    let mut out = String::new();
    for group in groups {
        out.push_str(&format!("{}:\n", group.heading()));
        for verb in all.iter().filter(|verb| verb.group == *group) {
            out.push_str(&format!("  {:<12}{}\n", verb.name, verb.about));
        }
    }
    out
}

/// The first examples of a help text.
pub fn first_examples(text: &str) -> String {
    const MOST: usize = 2;
    let examples = text.split_once("Examples:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or_default());
    let mut out = String::from("Examples:\n");
    let mut count = 0;
    for line in examples.lines() {
        // Continuation lines are indented further, and are not counted.
        count += usize::from(!line.starts_with("   "));
        if count > MOST {
            break;
        }
        out.push_str(&format!("{line}\n"));
    }
    out + "All flags, defaults and examples: --help"
}

/// The flag for help. Each verb gets its own, because the command's flag is not in any first help.
pub fn help_flag() -> clap::Arg {
    arg!(-h --help "Print help (see more with '--help')").action(ArgAction::Help)
}
