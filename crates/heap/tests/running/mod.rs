//! The C programs whose heaps the tests read.

use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_testing::programs::{self, Running};

/// Compiles `programs/NAME.c`. If this is not possible here, prints a line and returns `None`.
pub fn compiled(folder: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = format!("{}/tests/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    programs::compiled(Path::new(&source), folder, flags)
}

/// Starts a program with an argument, and with settings of glibc. The program has no other environment: the C library
/// of a static program makes allocations that depend on `LD_LIBRARY_PATH`, and the heap would then depend on who runs
/// the tests.
pub fn start(program: &Path, case: &str, tunables: &str) -> Running {
    Running::start(Command::new(program).env_clear().env("GLIBC_TUNABLES", tunables).arg(case))
}
