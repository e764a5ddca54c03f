//! The cells of the command. In: folders, a group of studies. Out: a roster. If cargo started the command, missing
//! cells are built.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::terminal;
use crate::given::features;
use allocanary_facts::ours;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::provenance::PACKAGE;
use allocanary_study::session::{Builder, Roster, Studies, check_folder, place};

/// Builds what should be next to the command, if cargo started it.
pub fn build_missing() -> Result<()> {
    Builder::find(&place::command()?, features()).map_or(Ok(()), |builder| builder.build())
}

/// Whether `cargo run` in our sources started this command.
pub fn is_of_cargo() -> bool {
    place::command().is_ok_and(|command| Builder::find(&command, features()).is_some())
}

/// The names of our own programs begin with this.
const OWN: &str = "allocanary-";

/// A program's name. If it is one of our programs, its path in `folders` or in the command's folders.
pub fn own_program(name: &str, folders: &[PathBuf]) -> Result<String> {
    if !name.starts_with(OWN) || name.contains('/') {
        return Ok(name.to_string());
    }
    let folders: Vec<PathBuf> = folders.iter().cloned().chain([place::folder()?]).collect();
    let find = || folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let found = match find() {
        Some(found) => Some(found),
        None => {
            build_missing()?;
            find()
        }
    };
    // A name that is none of ours may be a program in the user's PATH.
    Ok(found.map_or(name.to_string(), |path| path.display().to_string()))
}

/// The cells of the command. If cargo started the command, missing cells and cells of another build are built
/// first.
pub fn roster(folders: &[PathBuf]) -> Result<Roster> {
    roster_with(folders, &BTreeSet::new())
}

/// As [`roster`], and also the cells of other packages.
fn roster_with(folders: &[PathBuf], packages: &BTreeSet<&str>) -> Result<Roster> {
    folders.iter().try_for_each(|folder| check_folder(folder))?;
    let folders: Vec<PathBuf> = folders.iter().cloned().chain([place::folder()?]).collect();
    let roster = Roster::find(&folders, packages);
    let is_on = |name: &str| features().split(',').any(|feature| feature == name);
    let built_in = ours().filter(|(_, ours)| ours.feature.is_none_or(is_on)).count();
    let complete = roster.cells.iter().filter(|(cell, _)| cell.build.package == PACKAGE).count();
    let roster = match Builder::find(&place::command()?, features()).filter(|_| complete < built_in) {
        None => roster.or_say_why()?,
        Some(builder) => {
            builder.build()?;
            Roster::find(&folders, packages).or_say_why()?
        }
    };
    // Without this line the user would think that the allocator of a stale cell does not exist.
    roster.refused().for_each(terminal::tell);
    Ok(roster)
}

/// The cells for a group. If a study needs the cells of another package, they are built from the current sources. Without cargo they must
/// exist already.
pub fn roster_for(group: &Studies, folders: &[PathBuf]) -> Result<Roster> {
    let packages: BTreeSet<&str> = group.0.iter().filter_map(|study| study.package.as_deref()).collect();
    if let Some(builder) = Builder::find(&place::command()?, features()) {
        packages.iter().try_for_each(|package| builder.build_package(package))?;
    }
    let roster = roster_with(folders, &packages)?;
    let there = |package: &str| roster.cells.iter().any(|(cell, _)| cell.build.package == package);
    match packages.into_iter().find(|package| !there(package)) {
        None => Ok(roster),
        Some(package) => Err(Error::Cell(format!(
            "the study needs the cells of the package {package}: `cargo build --release -p {package}` in allocanary's \
             sources builds them, and --cells names their folder"
        ))),
    }
}
