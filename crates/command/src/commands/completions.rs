//! `allocanary completions`: a script for a shell. In: the shell, the command line. Out: the script.

use std::process::ExitCode;

use super::terminal;
use crate::args::CompletionsFlags;
use allocanary_error::Result;
use clap::Command;
use clap::builder::PossibleValue;
use clap_complete::Shell;

/// Prints it.
pub fn run(flags: &CompletionsFlags, mut command: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut command, "allocanary", &mut script);
    if flags.shell == Shell::Fish {
        script.extend(fish(&command).bytes());
    }
    terminal::print(&script)
}

/// Lines of fish for the values of arguments without a flag: clap writes none of them.
fn fish(command: &Command) -> String {
    let mut out = String::new();
    for verb in command.get_subcommands() {
        for argument in verb.get_positionals() {
            let values = argument.get_possible_values();
            let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
            if !names.is_empty() {
                let (verb, names) = (verb.get_name(), names.join(" "));
                let when = format!("__fish_allocanary_using_subcommand {verb}");
                out.push_str(&format!("complete -c allocanary -n \"{when}\" -a \"{names}\"\n"));
            }
        }
    }
    out
}
