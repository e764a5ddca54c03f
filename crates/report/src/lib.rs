//! The reports, one file each, and the list of them.

pub mod anatomies;
mod answer;
pub mod comparison;
mod csv;
mod figures;
mod html;
mod markdown;
mod markup;
pub mod paste;
mod pictures;
mod table;
pub mod trace;
pub mod words;

pub use pictures::front;

use crate::report::ReportFormat;

/// Every report. A terminal shows the first.
pub const ALL: &[&ReportFormat] = &[&table::REPORT, &markdown::REPORT, &csv::REPORT, &html::REPORT];

/// The report of that name.
pub fn find(name: &str) -> Option<&'static ReportFormat> {
    ALL.iter().copied().find(|report| report.name == name)
}

/// A sentence, broken at spaces into lines of at most `width` characters.
pub fn wrapped(text: &str, width: usize) -> String {
    table::wrapped(text, &allocanary_kernel::terminal::Look { color: false, width: width as u16 })
}
