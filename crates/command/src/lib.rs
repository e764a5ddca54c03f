//! The verbs of the `allocanary` command. In: the command line. Out: what they print, and an exit code.
//!
//! This is a separate crate because cells and preloads need the package `allocanary` compiled as one unit, which takes
//! a minute.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod args;
mod commands;
mod given;
mod verbs;

use std::process::ExitCode;

pub use given::BinaryParts;

/// Executes the command line, and reports an error in one line. `features` are the features of this build, separated by
/// commas: cargo builds the command's cells with the same features.
pub fn main(given: BinaryParts) -> ExitCode {
    given::keep(given);
    if let Some(code) = commands::serve_if_asked() {
        return code;
    }
    let done = verbs::carry_out();
    allocanary_study::session::place::refused().into_iter().for_each(commands::tell);
    match done {
        Ok(code) => code,
        Err(error) => {
            commands::tell(format_args!("allocanary: {error}"));
            ExitCode::from(2)
        }
    }
}
