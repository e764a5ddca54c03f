//! The trial of a library that was built. In: the library. Out: the version that it reports, if it has a function for
//! this.

use std::path::Path;
use std::process::Command;

use allocanary_sys::private;

use crate::builds::allocators::ALL;
use crate::builds::error::{Error, Result, file};
use crate::builds::releases::Release;
use crate::builds::step;

const PROGRAM: &str = include_str!("trial.c");

/// Compiles the program and runs it under the library.
fn run_program(release: &Release, library: &Path, folder: &Path, log: &Path) -> Result<String> {
    let (source, program) = (folder.join("trial.c"), folder.join("trial"));
    private::replace(&source, PROGRAM.as_bytes()).map_err(file(&source, "writing it"))?;
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    // Without builtins the compiler leaves each call as it is.
    compile.args(["-O1", "-fno-builtin", "-D_GNU_SOURCE", "-o"]).arg(&program).arg(&source).args(["-lpthread", "-ldl"]);
    step::run(release, &mut compile, "compiling the trial", "install a C compiler, or set CC to its path", log)?;
    // `env` sets LD_PRELOAD for this program only.
    let mut trial = Command::new("env");
    trial.arg(format!("LD_PRELOAD={}", library.display())).arg(&program).env("ALLOCANARY_TRIED", library);
    step::run(release, &mut trial, "the trial of the library", "", log)
}

/// Tries the library, and compares its version with the release's.
pub fn run(release: &Release, library: &Path, folder: &Path, log: &Path) -> Result<Option<String>> {
    let told = run_program(release, library, folder, log)?;
    let reported = reported(&told);
    match &reported {
        Some(found) if found != release.version => {
            Err(Error::OtherVersion { name: release.name(), wanted: release.version.into(), found: found.clone() })
        }
        _ => Ok(reported),
    }
}

/// `mimalloc 225` is 2.2.5, `mimalloc 20302` is 2.3.2; `jemalloc 5.3.0-0-g...` is 5.3.0.
fn reported(told: &str) -> Option<String> {
    let (allocator, version) = told.trim().split_once(' ')?;
    (ALL.iter().find(|part| part.name == allocator)?.version)(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_each_library_tells_them() {
        assert_eq!(reported("mimalloc 225\n").as_deref(), Some("2.2.5"));
        assert_eq!(reported("mimalloc 30302\n").as_deref(), Some("3.3.2"));
        assert_eq!(reported("jemalloc 5.3.0-0-g54eaed1d8b56\n").as_deref(), Some("5.3.0"));
        assert_eq!(reported(""), None, "a library that does not tell");
    }
}
