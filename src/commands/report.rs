//! `allocanary report`: rows are shown again. In: files of rows. Out: a report.

use std::fs;
use std::process::ExitCode;

use super::{measure, terminal};
use crate::args::ReportFlags;
use crate::description::perhaps;
use crate::error::{Error, Result};
use crate::reports;
use crate::study::StudyFile;

/// Renders the report.
pub fn run(flags: &ReportFlags) -> Result<ExitCode> {
    let report = reports::find(&flags.format).ok_or_else(|| {
        let names = reports::ALL.iter().map(|report| report.name);
        Error::Input(format!("--format: no format `{}`{}", flags.format, perhaps(&flags.format, names)))
    })?;
    let mut findings = measure::findings(&flags.rows)?;
    findings.question = question(flags);
    if findings.rows == 0 {
        findings.problems.iter().for_each(|problem| eprintln!("{problem}"));
        let files: Vec<String> = flags.rows.iter().map(|path| path.display().to_string()).collect();
        return Err(Error::NoRows(format!("{}: no row that can be reported", files.join(", "))));
    }
    if report.name == "csv" {
        // A script reads the figures; a person still has to hear what is missing from them.
        findings.problems.iter().for_each(|problem| eprintln!("{problem}"));
    }
    let text = (report.render)(&findings, &terminal::look());
    match &flags.to {
        None => terminal::print(text.as_bytes()),
        Some(path) => match fs::write(path, text) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(Error::file(path, "writing the report", error)),
        },
    }
}

/// The question of the study in whose folder the rows lie, where they all are of one folder.
fn question(flags: &ReportFlags) -> String {
    let [rows] = flags.rows.as_slice() else { return String::new() };
    let folder = if rows.is_dir() { Some(rows.as_path()) } else { rows.parent() };
    let study = folder.map(|folder| folder.join("study.toml")).filter(|path| path.is_file());
    study.and_then(|path| StudyFile::read(&path).ok()?.question).unwrap_or_default()
}
