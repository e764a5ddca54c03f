//! The place where checks run: the binaries next to this one, and a folder for output and compiled programs.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use allocanary_rows::Cell;
use allocanary_rows::description::Description;
use allocanary_rows::job::Job;
use allocanary_rows::sample::{Measured, Sample};
use tempfile::TempDir;

use crate::problem::Problem;

/// A private folder for the checks, and the folder of the binaries.
#[derive(Clone)]
pub struct Place {
    /// The folder for the output of programs. It is removed with the last copy of this place.
    folder: Arc<TempDir>,
    binaries: PathBuf,
}

impl Place {
    /// Makes the folder. An error says what cannot be made or found.
    pub fn new() -> Result<Place, String> {
        let own = std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
        let folder = tempfile::tempdir().map_err(|error| format!("a folder for what programs write: {error}"))?;
        Ok(Place { folder: folder.into(), binaries: own.parent().unwrap_or(Path::new(".")).to_path_buf() })
    }

    /// The folder for the output of programs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A binary of this workspace.
    pub fn binary(&self, name: &str) -> Result<PathBuf, Problem> {
        let path = self.binaries.join(name);
        match path.exists() {
            true => Ok(path),
            false => Err(Problem::Failed(format!(
                "{}: not found; build it by `cargo build --release --workspace --bins`",
                path.display()
            ))),
        }
    }

    /// Compiles the program `source`, a path from the root of the repository.
    pub fn compiled(&self, source: &str) -> Result<PathBuf, Problem> {
        let compiler = if source.ends_with("cpp") { "c++" } else { "cc" };
        let source = root(source);
        let program = self.folder().join(source.file_stem().unwrap_or_default());
        let mut command = Command::new(compiler);
        output(command.args(["-O1", "-pthread", "-w", "-o"]).arg(&program).arg(&source))?;
        Ok(program)
    }

    /// A program in a clean environment with a preload.
    pub fn preloaded(&self, words: &[&str], allocator: &str, settings: &str) -> Result<Command, Problem> {
        let mut command = clean(words, self.folder());
        command.env("LD_PRELOAD", self.binary(&format!("preload-{allocator}"))?).env("ALLOCANARY_PRELOAD", settings);
        Ok(command)
    }

    /// A function that runs a cell in a fresh process each time. An answer with an error is a problem.
    pub fn answers(&self, cell: Cell) -> Result<impl Fn() -> Result<Measured, Problem> + use<>, Problem> {
        let program = self.binary(&format!("cell-{}", cell.allocator))?;
        let failed = |cell: &Cell, why: &dyn Display| Problem::Failed(format!("{}: {why}", cell.title()));
        let described = output(Command::new(&program).arg("describe").env_clear())?;
        let description: Description = serde_json::from_str(&described).map_err(|error| failed(&cell, &error))?;
        let mut environment = BTreeMap::new();
        description.environment.add_to(&mut environment, &cell.settings);
        let text = serde_json::to_vec(&cell).map_err(|error| failed(&cell, &error))?;
        Ok(move || {
            let sample: Sample = fed(Command::new(&program).arg("run").env_clear().envs(&environment), &text)
                .and_then(|answer| Ok(serde_json::from_slice(&answer)?))
                .map_err(|error| failed(&cell, &error))?;
            match (sample.error, sample.measured) {
                (None, Some(answer)) => Ok(answer),
                (error, _) => Err(failed(&cell, &format_args!("wanted an answer, found the error {error:?}"))),
            }
        })
    }
}

/// Runs a program with `input` and returns its standard output.
fn fed(command: &mut Command, input: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input)?;
    }
    Ok(child.wait_with_output()?.stdout)
}

/// A path from the root of the repository.
pub fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A program whose environment has only the usual `PATH`.
pub fn clean(words: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", folder).env("LC_ALL", "C.UTF-8");
    command
}

/// Runs a program and returns its standard output. The check is skipped if the program is not installed, and fails if
/// the program fails.
pub fn output(command: &mut Command) -> Result<String, Problem> {
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Problem::Skipped(format!("{:?} is not installed", command.get_program())),
        _ => Problem::Failed(format!("{command:?}: {error}")),
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Problem::Failed(format!("{command:?}: {}: {}", output.status, text(&output.stderr)))),
    }
}

/// A cell of one candidate, without a study.
pub fn cell(candidate: &str, workload: &str, threads: u32) -> Result<Cell, Problem> {
    let spec = allocanary_rows::Spec::parse(candidate)
        .map_err(|error| Problem::Failed(format!("the candidate {candidate}: {error}")))?;
    let (allocator, settings) = (spec.name.clone(), spec.settings.clone());
    Ok(Cell { settings, ..Cell::new(spec, &allocator, Job::workload(workload, threads)) })
}
