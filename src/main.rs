//! The `allocanary` command: reads the command line, carries it out, and says in one line what went wrong.

use std::process::ExitCode;

use allocanary::{args, commands};

allocanary::install!();

fn main() -> ExitCode {
    match commands::carry_out(args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("allocanary: {error}");
            ExitCode::from(2)
        }
    }
}
