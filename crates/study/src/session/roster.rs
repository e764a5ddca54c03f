//! The roster: the available cells. In: folders. Out: each cell's description of itself.
//!
//! A cell is an executable named `cell-*` in the folder of the command's files, or in a folder that the user names. The cells of another
//! package are named `PACKAGE-cell-*`; only that package's studies use them. The parent has no list of allocators: it
//! asks each cell.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::child::{ChildCommand, run_child};
use super::place;
use crate::program::cause::cause;
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::provenance::{Build, PACKAGE};
use allocanary_rows::sample::SCHEMA;

/// The available cells.
#[derive(Debug, Default)]
pub struct Roster {
    /// Each cell's description and executable, in the order of the allocators' names.
    pub cells: Vec<(Description, PathBuf)>,
    /// The paths that were refused, each with the reason.
    pub refused: Vec<(PathBuf, CellRefusal)>,
}

/// Why a file, or a folder, gives no cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellRefusal {
    /// It is a cell of ours, of another build than the command.
    #[error("is of another build: {0}")]
    OtherBuild(String),
    /// It could not be asked, or its answer is not one of a cell.
    #[error("{0}")]
    NoCell(String),
}

const DEADLINE: Duration = Duration::from_secs(10);

impl Roster {
    /// Searches `folders`. If two have a package's cell for the same allocator, the first wins.
    pub fn find(folders: &[PathBuf], packages: &BTreeSet<&str>) -> Roster {
        let mut roster = Roster::default();
        for folder in folders {
            let paths = cells_in(folder, packages).unwrap_or_else(|error| {
                let why = CellRefusal::NoCell(format!("looking for cells: {}", cause(&error, folder)));
                roster.refused.push((folder.clone(), why));
                Vec::new()
            });
            for path in paths {
                match describe(&path, &bare_environment()) {
                    Ok(description) => roster.add(description, path),
                    Err(refusal) => roster.refused.push((path, refusal)),
                }
            }
        }
        // Our own cells come before those of other packages.
        let place = |cell: &Description| (cell.allocator.clone(), cell.build.package != PACKAGE);
        roster.cells.sort_by_key(|(cell, _)| place(cell));
        roster
    }

    fn add(&mut self, description: Description, path: PathBuf) {
        let same = |known: &Description| {
            known.allocator == description.allocator && known.build.package == description.build.package
        };
        if !self.cells.iter().any(|(known, _)| same(known)) {
            self.cells.push((description, path));
        }
    }

    /// All descriptions.
    pub fn descriptions(&self) -> Vec<Description> {
        self.cells.iter().map(|(description, _)| description.clone()).collect()
    }

    /// The cell for an allocator, and for a workload if one is given.
    pub fn get(&self, allocator: &str, workload: Option<&str>) -> Option<&(Description, PathBuf)> {
        let serves = |cell: &Description| workload.is_none_or(|name| cell.has_workload(name));
        self.cells.iter().find(|(cell, _)| cell.allocator == allocator && serves(cell))
    }

    /// The paths that were refused, with the reasons: one line each.
    pub fn refused(&self) -> impl Iterator<Item = String> {
        self.refused.iter().map(|(path, why)| format!("refused {}: {why}", path.display()))
    }

    /// The roster; if it is empty, an error with the reason and what to do.
    pub fn or_say_why(self) -> Result<Roster> {
        if !self.cells.is_empty() {
            return Ok(self);
        }
        let refused: String = self.refused().map(|reason| format!("\n  {reason}")).collect();
        if !self.refused.iter().all(|(_, why)| matches!(why, CellRefusal::OtherBuild(_))) {
            return Err(Error::Cell(format!("none of the cells can be used:{refused}")));
        }
        Err(Error::Cell(format!(
            "no cells (cell-system, cell-jemalloc, ...) of this build in {}: install allocanary again, by its package or by \
             `cargo install`{refused}",
            place::folder()?.display()
        )))
    }
}

/// Fails if a folder that the user names for its cells has no cell of any package.
pub fn check_folder(folder: &Path) -> Result<()> {
    let doing = "looking for cells (--cells)";
    let entries = std::fs::read_dir(folder).map_err(|error| Error::file(folder, doing, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| Error::file(folder, doing, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("cell-") || name.contains("-cell-") {
            return Ok(());
        }
    }
    let text = format!("--cells {}: wanted a folder with cells (cell-NAME), found none in it", folder.display());
    Err(Error::Input(text))
}

/// The executables in a folder whose names are those of cells, sorted.
fn cells_in(folder: &Path, packages: &BTreeSet<&str>) -> std::io::Result<Vec<PathBuf>> {
    use std::os::unix::fs::PermissionsExt;
    let is_cell = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // cargo leaves `cell-system.d` next to `cell-system`.
        let executable = path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
        let of_package = |package: &&str| name.strip_prefix(*package).is_some_and(|rest| rest.starts_with("-cell-"));
        (name.starts_with("cell-") || packages.iter().any(of_package)) && executable
    };
    let paths = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<std::io::Result<_>>()?;
    paths.retain(is_cell);
    paths.sort();
    Ok(paths)
}

/// The environment of every child: enough to find programs, and nothing that configures an allocator.
pub fn bare_environment() -> BTreeMap<String, String> {
    std::env::var("PATH").into_iter().map(|path| ("PATH".to_string(), path)).collect()
}

/// Asks a cell for its description, in an environment.
pub fn describe(path: &Path, environment: &BTreeMap<String, String>) -> std::result::Result<Description, CellRefusal> {
    let description = answered(path, environment).map_err(CellRefusal::NoCell)?;
    same_build(&description.build)?;
    Ok(description)
}

/// The description that an executable prints, if the command can use it.
fn answered(path: &Path, environment: &BTreeMap<String, String>) -> std::result::Result<Description, String> {
    let environment: Vec<(String, String)> =
        environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let child =
        ChildCommand { program: path, verb: "describe", input: b"", environment: &environment, deadline: DEADLINE };
    let ended = run_child(&child, &AtomicBool::new(false))
        .map_err(|error| format!("could not start: {}", cause(&error, path)))?;
    if !ended.status.is_some_and(|status| status.success()) {
        return Err(format!("`describe` failed: {}", ended.complaint));
    }
    let description: Description = serde_json::from_slice(&ended.output)
        .map_err(|error| format!("`describe` did not answer with a description: {error}"))?;
    if description.protocol != SCHEMA {
        return Err(format!("speaks protocol {}, wanted {SCHEMA}", description.protocol));
    }
    if description.build.version.is_empty() {
        return Err("does not say its version: no version, no sample".into());
    }
    description.check()?;
    Ok(description)
}

/// Our own cells must be of this build. An outside cell is identified by its own package and version.
fn same_build(build: &Build) -> std::result::Result<(), CellRefusal> {
    let this = Build::this();
    if build.package != this.package || build.id == this.id {
        return Ok(());
    }
    Err(CellRefusal::OtherBuild(format!(
        "wanted {} {} ({}), found {} {} ({})",
        this.revision, this.id, this.profile, build.revision, build.id, build.profile,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_cell_the_advice_is_to_install_only_if_all_are_of_another_build() {
        let old =
            || (PathBuf::from("/old/cell-system"), same_build(&Build { id: "0".into(), ..Build::this() }).unwrap_err());
        // A path may have any name.
        let broken =
            || (PathBuf::from("/of another build/cell-x"), CellRefusal::NoCell("`describe` failed: no".into()));
        let said = |refused| Roster { refused, ..Roster::default() }.or_say_why().unwrap_err().to_string();
        let all_old = said(vec![old(), old()]);
        assert!(all_old.contains(
            "by its package or by `cargo install`\n  refused /old/cell-system: is of another build: wanted "
        ));
        let wanted = "none of the cells can be used:\n  refused /old/cell-system: ";
        assert!(said(vec![old(), broken()]).starts_with(wanted));
        let broken = said(vec![broken()]);
        assert_eq!(broken, "none of the cells can be used:\n  refused /of another build/cell-x: `describe` failed: no");
    }
}
