//! The `allocanary` command: reads the command line, executes it, and reports an error in one line.

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
    // The command runs next to the cells that it measures, so it returns freed pages at once, if the allocator has a
    // setting for this. It halves the peak memory of rendering a page with a thousand groups.
    let _ = tuning::set_decay(Pages::Dirty, Some(Duration::ZERO));
    match commands::carry_out(args::parse()) {
        Ok(code) => code,
        Err(error) => {
            commands::tell(format_args!("allocanary: {error}"));
            ExitCode::from(2)
        }
    }
}
