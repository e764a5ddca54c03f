//! The studies that the flags of `allocanary study` select. In: a study's name or file, flags. Out: studies.

use std::path::Path;

use super::terminal;
use crate::args::StudyFlags;
use allocanary_measure::metrics::Metrics;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::perhaps;
use allocanary_study::session::{CASES, SHIPPED, Studies, StudyFile, find_shipped, memory_at_hand};

/// The studies that the flags select, and a name for all of them. They come from a resumed folder, a file, the shipped
/// studies, or the default study. With `--full` they get their large sizes. Then each flag replaces the value in every
/// study.
///
/// Invalid values are reported here, before anything is built or written.
pub fn study(flags: &StudyFlags) -> Result<(String, Studies)> {
    let (name, group, resumed) = named(flags)?;
    let asked = flags.file();
    if flags.full && resumed {
        let text = "--full: a resumed study keeps the size that it started with: leave out --full";
        return Err(Error::Input(text.into()));
    }
    let group = if flags.full { at_full_size(group)? } else { group };
    if let (Some(first), [_, _, ..], Some(_)) = (group.0.first(), group.0.as_slice(), &asked.workloads) {
        let first = first.name.as_deref().unwrap_or(&name);
        let text = format!("--workloads: each study of {name} has its own workloads: name one study, without --full,");
        return Err(Error::Input(format!("{text} such as `allocanary study {first}`")));
    }
    let group = Studies(group.0.into_iter().map(|study| study.overridden_by(asked.clone())).collect());
    for study in &group.0 {
        study.about(&Metrics::default())?;
        study.clone().check()?;
    }
    Ok((name, group))
}

/// The studies, their common name, and whether they come from a folder that is resumed.
fn named(flags: &StudyFlags) -> Result<(String, Studies, bool)> {
    let resumed = match (flags.rows.path(&flags.run), flags.resume) {
        (None, true) => {
            return Err(Error::Input("--resume: wanted --out-dir with the folder of the study to finish".into()));
        }
        (Some(folder), true) => Some(folder.join("study.toml")).filter(|path| path.exists()),
        _ => None,
    };
    let candidates = flags.file().candidates;
    if flags.resume && resumed.is_none() && flags.study.is_none() && candidates.is_none() {
        let named = flags.rows.path(&flags.run).unwrap_or_default();
        let out = named.display();
        if !named.exists() {
            return Err(Error::Input(format!(
                "--resume: {out}: no such folder or file, so there is no study to continue"
            )));
        }
        let text = format!(
            "--resume: {out}: there is no study.toml next to those rows: name the study or its candidates as before"
        );
        return Err(Error::Input(text));
    }
    match (&flags.study, resumed) {
        (None, Some(path)) => Ok(("resumed".to_string(), Studies::read(&path)?, true)),
        (Some(text), _) if is_path(text) => {
            let path = Path::new(text);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok((stem, Studies::read(path)?, false))
        }
        (Some(name), _) => shipped(name),
        (None, None) if candidates.is_none() => shipped(SHIPPED[0].name),
        (None, None) => {
            // The question and the budget of the default study apply only to its own candidates.
            let file = StudyFile::parse(SHIPPED[0].name, SHIPPED[0].text)?;
            Ok(("study".to_string(), Studies(vec![StudyFile { question: None, time_budget: None, ..file }]), false))
        }
    }
}

/// Each study with all of its large sizes that fit in memory. Sizes that do not fit are printed.
fn at_full_size(group: Studies) -> Result<Studies> {
    let at_hand = memory_at_hand();
    let (mut fit, mut too_large) = (Vec::new(), Vec::new());
    for study in group.0 {
        let sized = study.at_full_size(at_hand)?;
        fit.extend(sized.studies);
        too_large.extend(sized.too_large);
    }
    if fit.is_empty() {
        return Err(Error::Input(too_large.join("; ")));
    }
    too_large.iter().for_each(terminal::tell);
    Ok(Studies(fit))
}

/// Whether the argument names a file and not a shipped study.
fn is_path(text: &str) -> bool {
    text.contains(['/', '.']) || (Path::new(text).is_file() && find_shipped(text).is_none())
}

fn shipped(name: &str) -> Result<(String, Studies, bool)> {
    let found = find_shipped(name).ok_or_else(|| {
        let names = SHIPPED.iter().map(|shipped| shipped.name).chain([CASES.name]);
        Error::Input(format!("no study `{name}`{}; a file's name ends in .toml", perhaps(name, names)))
    })?;
    Ok((name.to_string(), found?, false))
}
