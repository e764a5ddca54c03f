//! Builds the cells where cargo started the command: `cargo run` builds one binary only.
//! In: this build's provenance and cargo's variables. Out: cells next to the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use allocanary_rows::error::{Error, Result};
use allocanary_rows::provenance::Build;

/// The package of the command, of its cells and of its preloads.
const COMMAND: &str = "allocanary-cli";

/// The cargo that started the command.
pub struct Builder {
    cargo: PathBuf,
    manifest: PathBuf,
    target_folder: PathBuf,
    features: &'static str,
}

impl Builder {
    /// Finds cargo, if it started this command from this package's sources. `command` is our own executable. It was built with `features`,
    /// which are separated by commas.
    pub fn find(command: &Path, features: &'static str) -> Option<Builder> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let ours = variable("CARGO_PKG_NAME").is_some_and(|name| name == COMMAND);
        let cargo = variable("CARGO").filter(|_| ours)?;
        let manifest = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
        // <target>/<profile>/allocanary, or <target>/<triple>/<profile>/allocanary if cargo was given a triple.
        let above = command.parent()?.parent()?;
        let triple = above.file_name().is_some_and(|name| *name == *Build::this().target);
        let target_folder = if triple { above.parent()? } else { above }.to_path_buf();
        manifest.exists().then_some(Builder { cargo: cargo.into(), manifest, target_folder, features })
    }

    /// Builds every cell with this command's profile and features. Cargo's messages go to standard error as usual.
    pub fn build(&self) -> Result<()> {
        self.cargo(&["--no-default-features", "--features", self.features])
    }

    /// Builds the cells of another package of this workspace.
    pub fn build_package(&self, package: &str) -> Result<()> {
        self.cargo(&["--package", package])
    }

    fn cargo(&self, what: &[&str]) -> Result<()> {
        let build = Build::this();
        let profile = if build.profile == "debug" { "dev" } else { &build.profile };
        let mut command = Command::new(&self.cargo);
        command
            .args(["build", "--bins"])
            .args(what)
            .args(["--profile", profile])
            .arg("--manifest-path")
            .arg(&self.manifest)
            .arg("--target-dir")
            .arg(&self.target_folder)
            .stdin(Stdio::null());
        if build.is_cross() {
            command.args(["--target", &build.target]);
        }
        let status = command.status().map_err(|error| Error::file(&self.cargo, "building the cells", error))?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::Cell(format!("the cells could not be built: {command:?} ended with {status}"))),
        }
    }
}
