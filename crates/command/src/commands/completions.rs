//! `allocanary completions`: a script for a shell. In: the shell, the command line. Out: the script.

use std::process::ExitCode;

use super::terminal;
use crate::args::CompletionsFlags;
use allocanary_rows::error::Result;
use clap::Command;
use clap::builder::PossibleValue;
use clap_complete::Shell;

/// The verbs that take a running process.
const OF_A_PROCESS: [&str; 3] = ["heap", "doctor", "give-back"];
/// Prints the names of running processes. Names with other characters are left out, because anybody may choose the name
/// of a process, and a shell could interpret them.
const NAMES: &str = "ps -eo comm= 2>/dev/null | grep -E '^[A-Za-z0-9._+:-]+\\$' | sort -u";

/// Prints the script.
pub fn run(flags: &CompletionsFlags, mut command: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut command, "allocanary", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let script = match flags.shell {
        Shell::Fish => script + &fish(&command),
        Shell::Bash => script + &bash(),
        Shell::Zsh => zsh(&script),
        _ => script,
    };
    terminal::print(script.as_bytes())
}

/// Lines of bash that also offer the names of running processes.
fn bash() -> String {
    let verbs = OF_A_PROCESS.join(" | ");
    format!(
        r#"
_allocanary_with_processes() {{
    _allocanary "$@"
    local current="${{COMP_WORDS[COMP_CWORD]}}" first="${{COMP_WORDS[1]}}"
    [[ $current == -* ]] && return
    [[ $COMP_CWORD == 1 ]] && first=
    case "$first" in
    "" | {verbs}) COMPREPLY+=($(compgen -W "$({NAMES})" -- "$current")) ;;
    esac
}}
if [[ "${{BASH_VERSINFO[0]}}" -eq 4 && "${{BASH_VERSINFO[1]}}" -ge 4 || "${{BASH_VERSINFO[0]}}" -gt 4 ]]; then
    complete -F _allocanary_with_processes -o nosort -o bashdefault -o default allocanary
else
    complete -F _allocanary_with_processes -o bashdefault -o default allocanary
fi
"#
    )
}

/// The script of zsh. Where a process is wanted, it offers the names of running processes instead of files.
fn zsh(script: &str) -> String {
    let with_names = |line: &str| {
        let is_process = line.contains(":process -- ") || line.contains(":what -- ");
        let ends = [":_default'", ":_files'"].into_iter().find_map(|end| line.find(end).map(|at| (at, end.len())));
        match ends.filter(|_| is_process) {
            Some((at, length)) => format!("{}:_allocanary_processes'{}\n", &line[..at], &line[at + length..]),
            None => format!("{line}\n"),
        }
    };
    let mut lines = script.lines();
    let first = lines.next().unwrap_or_default();
    let names = format!(
        "_allocanary_processes() {{\n    local -a names\n    names=(${{(f)\"$({NAMES})\"}})\n    compadd -a names\n    _files\n}}\n"
    );
    format!("{first}\n\n{names}{}", lines.map(with_names).collect::<String>())
}

/// Lines of fish that offer the names of running processes, and the values of arguments without a flag. clap writes
/// neither.
fn fish(command: &Command) -> String {
    let first = format!("complete -c allocanary -n __fish_allocanary_needs_command -f -a \"({NAMES})\"\n");
    let of_verb = |verb: &str| {
        format!("complete -c allocanary -n \"__fish_allocanary_using_subcommand {verb}\" -a \"({NAMES})\"\n")
    };
    let mut out = first + &OF_A_PROCESS.map(of_verb).concat();
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
