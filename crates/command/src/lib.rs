//! The verbs of the `allocanary` command. In: the command line. Out: what they print, and an exit code.
//!
//! A crate of its own, since the package `allocanary` is compiled as the cells and preloads need it: as one unit, which takes a minute.

mod args;
mod commands;
mod renamed;
mod verbs;

use std::process::ExitCode;

/// Executes the command line, and reports an error in one line. `features` are those that the command was built with, separated by commas: the
/// cells that it has cargo build get the same.
pub fn main(features: &'static str) -> ExitCode {
    commands::built_with(features);
    if let Some(code) = commands::serve_if_asked() {
        return code;
    }
    match verbs::carry_out() {
        Ok(code) => code,
        Err(error) => {
            commands::tell(format_args!("allocanary: {error}"));
            ExitCode::from(2)
        }
    }
}
