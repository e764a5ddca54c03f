//! The `allocanary` command: reads the command line, carries it out, and says in one line what went wrong.

mod args;
mod commands;
#[cfg(feature = "jemalloc")]
mod own_environment;

use std::process::ExitCode;
use std::time::Duration;

use allocanary::tuning::{self, Pages};

allocanary::install!();

fn main() -> ExitCode {
    #[cfg(feature = "jemalloc")]
    own_environment::show();
    // We run beside what we measure: freed pages go back at once, where the allocator has a word for it. It halves the
    // most memory that a page of a thousand groups takes.
    let _ = tuning::set_decay(Pages::Dirty, Some(Duration::ZERO));
    match commands::carry_out(args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("allocanary: {error}");
            ExitCode::from(2)
        }
    }
}
