//! The `allocanary` command: reads the command line, executes it, and reports an error in one line.

#[cfg(feature = "jemalloc")]
mod own_environment;

use std::process::ExitCode;
use std::time::Duration;

use allocanary::tuning::{self, Pages};
use allocanary_command::BinaryParts;

allocanary::install!();

fn main() -> ExitCode {
    // If a file reaches the limit of `ulimit -f`, the command reports an error that names the file.
    allocanary_sys::sys::survive_long_files();
    #[cfg(feature = "jemalloc")]
    own_environment::show();
    // The command runs next to the cells that it measures. So it returns freed pages soon, if the allocator has a setting for this. It does
    // not return them at once, because threads that parse a report's rows would spend half of their time on page faults.
    let _ = tuning::set_decay(Pages::Dirty, Some(Duration::from_millis(100)));
    allocanary_command::main(BinaryParts {
        features: env!("ALLOCANARY_FEATURES"),
        allocator: allocanary::CHOSEN,
        built: allocanary_revision::built(),
        workloads: allocanary_cell::workloads::names,
        readings: allocanary_cell::meters::described,
        check_settings: allocanary_preload::settings::checked,
    })
}
