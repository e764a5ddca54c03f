//! `allocanary report`: re-renders a report from saved results. In: files of rows. Out: a report.

use std::fs;
use std::process::ExitCode;

use super::{measure, terminal};
use crate::args::ReportFlags;
use allocanary_cell::description::perhaps;
use allocanary_study::error::{Error, Result};
use allocanary_study::reports;

/// Renders the report.
pub fn run(flags: &ReportFlags) -> Result<ExitCode> {
    let report = reports::find(&flags.format).ok_or_else(|| {
        let names = reports::ALL.iter().map(|report| report.name);
        Error::Input(format!("--format: no format `{}`{}", flags.format, perhaps(&flags.format, names)))
    })?;
    let findings = measure::findings(&flags.rows, &measure::studies_beside(&flags.rows))?;
    if findings.rows == 0 {
        findings.problems.iter().for_each(terminal::tell);
        let files: Vec<String> = flags.rows.iter().map(|path| path.display().to_string()).collect();
        return Err(Error::NoRows(format!("{}: no row that can be reported", files.join(", "))));
    }
    if report.name == "csv" {
        // CSV has no place for warnings, so they go to standard error.
        findings.problems.iter().for_each(terminal::tell);
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
