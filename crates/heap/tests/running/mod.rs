//! The programs in C whose heaps are read.

use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_testing::programs::{self, Running};

/// Compiles `programs/NAME.c`. `None`, and a line, if that is not possible here.
pub fn compiled(folder: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = format!("{}/tests/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    programs::compiled(Path::new(&source), folder, flags)
}

/// Starts it with an argument, and with settings of glibc. It has no other environment: a static program's C library allocates what
/// `LD_LIBRARY_PATH` says, and then the heap would depend on who runs the tests.
pub fn start(program: &Path, case: &str, tunables: &str) -> Running {
    Running::start(Command::new(program).env_clear().env("GLIBC_TUNABLES", tunables).arg(case))
}
