//! The `allocanary` command: reads the command line, carries it out, and says in one line what went wrong.

use std::process::ExitCode;

use allocanary::{Chosen, args, commands};

#[global_allocator]
static GLOBAL: Chosen = allocanary::CHOSEN.0;

fn main() -> ExitCode {
    match commands::carry_out(args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("allocanary: {error}");
            ExitCode::from(2)
        }
    }
}
