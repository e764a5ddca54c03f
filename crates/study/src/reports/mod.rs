//! The reports, one file each, and the list of them.

mod answer;
pub mod comparison;
mod csv;
mod figures;
mod html;
mod markdown;
mod paste;
mod pictures;
mod table;
mod words;

use crate::report::Report;

/// Every report. A terminal shows the first.
pub const ALL: &[&Report] = &[&table::REPORT, &markdown::REPORT, &csv::REPORT, &html::REPORT];

/// The report of that name.
pub fn find(name: &str) -> Option<&'static Report> {
    ALL.iter().copied().find(|report| report.name == name)
}
