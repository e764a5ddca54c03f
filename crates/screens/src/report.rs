//! Reports of studies: findings in, text out. Each has a file: the terminal's table, Markdown, CSV, the page, the pictures, and the lines
//! to paste.

// This crate returns texts. Only the command writes to a terminal.

pub mod anatomies;
pub mod answer;
pub mod comparison;
mod csv;
mod figures;
mod format;
mod html;
pub mod json;
pub mod lines;
mod markdown;
#[cfg(test)]
mod of_rows;
pub mod paste;
mod pictures;
pub mod places;
pub mod production;
pub mod table;
pub mod words;
pub mod wrapper;

pub use format::ReportFormat;

/// Every report. A terminal shows the first.
pub const ALL: &[&ReportFormat] = &[&table::REPORT, &markdown::REPORT, &csv::REPORT, &html::REPORT, &json::REPORT];

/// The report of this name.
pub fn find(name: &str) -> Option<&'static ReportFormat> {
    ALL.iter().copied().find(|report| report.name == name)
}
