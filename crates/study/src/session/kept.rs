//! Stores the study next to its rows, so that `--resume` needs only the folder. In: a folder, a group of studies. Out:
//! `study.toml`, and errors if existing files must not be overwritten.

use std::fs;
use std::path::{Path, PathBuf};

use crate::session::Studies;
use crate::session::StudyFiles;
use allocanary_rows::error::{Error, Result};
use allocanary_sys::private;

/// Writes the study, if the target is a folder.
pub fn keep(target: &StudyFiles, group: &Studies) -> Result<()> {
    match place(target) {
        // An unchanged file is not rewritten: on a full disk this would lose it.
        Some(path) if !says(&path, group) => private::replace(&path, group.to_toml().as_bytes())
            .map(drop)
            .map_err(|error| Error::file(path, "writing the study", error)),
        _ => Ok(()),
    }
}

/// Fails if a folder has a study or one of `written`, the files of the answer, but no rows: then these files are the user's,
/// and must not be overwritten.
pub fn check(target: &StudyFiles, group: &Studies, written: &[&str]) -> Result<()> {
    let (StudyFiles::Folder(folder), Some(study)) = (target, place(target)) else { return Ok(()) };
    if folder.join("samples.jsonl").metadata().is_ok_and(|rows| rows.len() > 0) {
        return Ok(());
    }
    if study.exists() && says(&study, group) {
        return Ok(());
    }
    let mut ours = std::iter::once(study).chain(written.iter().map(|name| folder.join(name)));
    match ours.find(|path| path.exists()) {
        None => Ok(()),
        Some(theirs) => Err(Error::Input(format!(
            "{}: exists without rows next to it, and would be overwritten: name another --out-dir",
            theirs.display()
        ))),
    }
}

/// Fails if the rows in a folder are of another study. The error names the field of the study that differs, which a row
/// does not have.
pub fn compare(target: &StudyFiles, group: &Studies) -> Result<()> {
    let Some(path) = place(target).filter(|path| path.exists()) else { return Ok(()) };
    match group.differs_from(&Studies::read(&path)?)? {
        None => Ok(()),
        Some(difference) => Err(Error::Input(format!(
            "--resume: {}: the rows there are of another study: {difference}: undo this change, or name another --out-dir",
            path.display()
        ))),
    }
}

/// Whether the program of the study in a folder may write another output in each run; `None` without such a study.
pub fn any_output(target: &StudyFiles) -> Result<Option<bool>> {
    let Some(path) = place(target).filter(|path| path.exists()) else { return Ok(None) };
    let study = Studies::read(&path)?.0.into_iter().next();
    Ok(study.and_then(|study| study.program).map(|program| program.any_output))
}

fn place(target: &StudyFiles) -> Option<PathBuf> {
    match target {
        StudyFiles::Folder(folder) => Some(folder.join("study.toml")),
        _ => None,
    }
}

/// Whether a file already has the study that would be written to it.
fn says(path: &Path, group: &Studies) -> bool {
    let same_text = || fs::read_to_string(path).is_ok_and(|there| there == group.to_toml());
    same_text() || Studies::read(path).is_ok_and(|there| there == *group)
}
