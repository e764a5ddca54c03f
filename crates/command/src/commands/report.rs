//! `allocanary report`: makes a report from saved results. In: files of rows. Out: a report.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{measure, output, terminal, trace};
use crate::args::ReportFlags;
use allocanary_measure::rows;
use allocanary_measure::rows::holds_rows;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::perhaps;
use allocanary_screens::report as reports;
use allocanary_screens::report::table::{self, Columns, View};
use allocanary_sys::private;
use allocanary_trace::reader;

/// Renders the report.
pub fn run(flags: &ReportFlags) -> Result<ExitCode> {
    let format = format(flags.format.as_deref(), flags.to.as_deref())?;
    if let [file] = flags.rows.as_slice()
        && reader::is_one(file)
    {
        return trace::report(format, flags.to.as_deref(), file);
    }
    let report = reports::find(format).ok_or_else(|| {
        let names = reports::ALL.iter().map(|report| report.name);
        Error::Input(format!("--format: no format `{format}`{}", perhaps(format, names)))
    })?;
    if let Some(to) = &flags.to {
        spare_rows(to, &flags.rows)?;
    }
    let findings = measure::findings(&flags.rows, &measure::studies_beside(&flags.rows))?;
    if findings.rows == 0 {
        findings.problems.iter().for_each(terminal::tell);
        let files: Vec<String> = flags.rows.iter().map(|path| path.display().to_string()).collect();
        return Err(Error::NoRows(format!("{}: no row that can be reported", files.join(", "))));
    }
    let named = findings.sections.iter().flat_map(|section| &section.about.metrics).map(|metric| &*metric.name);
    let columns = output::columns(&flags.metrics, &named.collect::<Vec<_>>())?;
    if columns != Columns::Deciding && report.name != "table" {
        let name = report.name;
        return Err(Error::Input(format!("--metrics: wanted --format table, found {name}: it has every column")));
    }
    if report.name == "csv" {
        // CSV cannot contain warnings, so they go to standard error.
        findings.problems.iter().for_each(terminal::tell);
    }
    let text = match columns {
        Columns::Deciding => (report.render)(&findings, &terminal::look()),
        columns => table::view(&findings, &View { columns, lines: None }, &terminal::look()),
    };
    match &flags.to {
        None => terminal::print(text.as_bytes()),
        Some(path) => match private::publish(path, text.as_bytes()) {
            Ok(_) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(Error::file(path, "writing the report", error)),
        },
    }
}

/// The requested format, else that of the file's ending, else a table. A page or a file in Markdown must not get another format, because in
/// these files a program's name could become a script.
fn format<'a>(asked: Option<&'a str>, to: Option<&Path>) -> Result<&'a str> {
    let ending = to.and_then(Path::extension).map(|ending| ending.to_string_lossy().to_lowercase());
    let of_file = match ending.as_deref() {
        Some("html" | "htm" | "xhtml") => Some("html"),
        Some("md" | "markdown") => Some("markdown"),
        Some("csv") => Some("csv"),
        Some("json") => Some("json"),
        _ => None,
    };
    match (asked, of_file, to) {
        (Some(asked), Some(of_file @ ("html" | "markdown")), Some(to)) if asked != of_file => {
            Err(Error::Input(format!(
                "--format {asked}: {} is named as a file of --format {of_file}: leave out --format, or name another file",
                to.display()
            )))
        }
        _ => Ok(asked.or(of_file).unwrap_or("table")),
    }
}

/// Fails if the report would overwrite rows: there may be no copy of them.
fn spare_rows(to: &Path, inputs: &[PathBuf]) -> Result<()> {
    let refused = |found: &str| {
        Err(Error::Input(format!(
            "--output {}: {found}, which the report would replace: name another file",
            to.display()
        )))
    };
    let identity = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    // Nothing can be lost in a device or an empty file.
    let Some(there) = to.metadata().ok().filter(|meta| meta.is_file() && meta.len() > 0) else { return Ok(()) };
    if inputs.iter().any(|input| identity(&rows::rows_of(input)) == Some((there.dev(), there.ino()))) {
        return refused("is one of the files to report");
    }
    match File::open(to).and_then(|mut file| holds_rows(&mut file)) {
        Ok(true) => refused("holds rows"),
        Ok(false) => Ok(()),
        Err(error) => Err(Error::file(to, "looking for rows", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_format_that_its_file_names() {
        let of = |asked, to: &str| format(asked, Some(Path::new(to)));
        for (to, wanted) in [
            ("x.html", "html"),
            ("x.HTM", "html"),
            ("x.md", "markdown"),
            ("x.csv", "csv"),
            ("x.json", "json"),
            ("x.txt", "table"),
            ("/dev/stdout", "table"),
        ] {
            assert_eq!(of(None, to).unwrap(), wanted);
        }
        assert_eq!((format(None, None).unwrap(), format(Some("csv"), None).unwrap()), ("table", "csv"));
        assert_eq!((of(Some("html"), "x.html").unwrap(), of(Some("csv"), "x.txt").unwrap()), ("html", "csv"));
        for (asked, to) in [("table", "x.html"), ("csv", "x.htm"), ("table", "x.md")] {
            let said = of(Some(asked), to).unwrap_err().to_string();
            assert!(said.contains("leave out --format, or name another file"), "{said}");
        }
    }
}
