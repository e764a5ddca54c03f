//! `allocanary study`: candidates are compared. In: a study's name or file, flags. Out: rows, a report, a page.

use std::path::Path;
use std::process::ExitCode;

use super::measure::{self, Measurement};
use crate::args::StudyFlags;
use crate::description::perhaps;
use crate::error::{Error, Result};
use crate::run::Target;
use crate::study::{SHIPPED, StudyFile};

/// Runs the study.
pub fn run(flags: &StudyFlags) -> Result<ExitCode> {
    let (name, file) = study(flags)?;
    // What is wrong with the study is said before anything is built or made.
    file.clone().check()?;
    let roster = measure::roster(&flags.run.cells)?;
    let target = match &flags.run.out {
        Some(out) => Target::of(out),
        None => Target::Fresh(name),
    };
    Measurement { file: &file, roster: &roster, target, resume: flags.resume }.run()
}

/// The study that the flags mean, and its name: that of a resumed folder, of a file, of a shipped study, or the
/// default; then what the flags change.
pub fn study(flags: &StudyFlags) -> Result<(String, StudyFile)> {
    let resumed = match (&flags.out_folder(), flags.resume) {
        (None, true) => {
            return Err(Error::Input("--resume: wanted --out with the folder of the study to finish".into()));
        }
        (Some(folder), true) => Some(folder.join("study.toml")).filter(|path| path.exists()),
        _ => None,
    };
    let named = flags.study.is_some() || flags.file().candidates.is_some();
    if flags.resume && resumed.is_none() && !named {
        let text = "--resume: there is no study.toml beside those rows: name the study or its candidates as before";
        return Err(Error::Input(text.into()));
    }
    let (name, file) = match (&flags.study, resumed) {
        (None, Some(path)) => ("resumed".to_string(), StudyFile::read(&path)?),
        (None, None) => shipped(SHIPPED[0].name)?,
        (Some(text), _) if is_path(text) => {
            let path = Path::new(text);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            (stem, StudyFile::read(path)?)
        }
        (Some(name), _) => shipped(name)?,
    };
    let asked = flags.file();
    // A study of other candidates than the default's has no claim to the default's question and budget.
    let own = name == SHIPPED[0].name && flags.study.is_none() && asked.candidates.is_some();
    let (name, file) = match own {
        true => ("study".to_string(), StudyFile { question: None, budget: None, ..file }),
        false => (name, file),
    };
    Ok((name, file.overridden_by(asked)))
}

/// Whether a word means a file rather than a shipped study.
fn is_path(text: &str) -> bool {
    text.contains(['/', '.']) || (Path::new(text).is_file() && !SHIPPED.iter().any(|shipped| shipped.name == text))
}

fn shipped(name: &str) -> Result<(String, StudyFile)> {
    let found = SHIPPED.iter().find(|shipped| shipped.name == name).ok_or_else(|| {
        let perhaps = perhaps(name, SHIPPED.iter().map(|shipped| shipped.name));
        Error::Input(format!("no study `{name}`{perhaps}; a file's name ends in .toml"))
    })?;
    Ok((name.to_string(), StudyFile::parse(name, found.text)?))
}
