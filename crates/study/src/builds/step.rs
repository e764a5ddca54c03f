//! One step of a build: a program that is run to its end. In: its command line. Out: its standard output, or its last lines as an error.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use allocanary_sys::private;

use crate::builds::error::{Error, Result, file};
use crate::builds::releases::Release;

/// Runs a step, and returns its standard output. The log gets all of its output.
pub(crate) fn run(
    release: &Release,
    command: &mut Command,
    step: &'static str,
    advice: &'static str,
    log: &Path,
) -> Result<String> {
    let mut kept = private::open_to_append(log, false, 0o600).map_err(file(log, "writing it"))?;
    let program = command.get_program().to_string_lossy().into_owned();
    let errors = kept.try_clone().map_err(file(log, "writing it"))?;
    let output = command
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stderr(errors)
        .output()
        .map_err(|why| Error::Tool { name: release.name(), program, why, advice })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    kept.write_all(&output.stdout).map_err(file(log, "writing it"))?;
    let all = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = all.lines().filter(|line| !line.starts_with("{\"reason\"")).collect();
    let last =
        lines[lines.len().saturating_sub(12)..].iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n");
    Err(Error::Step { name: release.name(), step, status: output.status.to_string(), last, log: log.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builds::releases::find;

    #[test]
    fn a_step_that_fails_tells_its_last_lines_and_keeps_all() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "for i in $(seq 30); do echo line $i >&2; done; exit 3"]);
        let error = run(&find("jemalloc").unwrap(), &mut command, "cargo build", "", &log).unwrap_err().to_string();
        assert!(
            error.contains("jemalloc@5.3.1: cargo build failed (exit status: 3)") && error.contains("line 30"),
            "{error}"
        );
        assert!(!error.contains("line 18\n") && fs::read_to_string(&log).unwrap().contains("line 18\n"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_says_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new(folder.path().join("no-compiler"));
        let error =
            run(&find("jemalloc").unwrap(), &mut command, "linking", "Debian: apt install build-essential", &log)
                .unwrap_err()
                .to_string();
        assert!(error.contains("no-compiler") && error.contains("build-essential"), "{error}");
    }
}
