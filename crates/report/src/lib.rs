//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Reports: findings in, text out. One file each: the terminal's table, Markdown, CSV, the page, the pictures, the page about a
//! trace, and the lines to paste.

// This crate returns texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

pub mod anatomies;
mod answer;
pub mod comparison;
mod csv;
mod figures;
mod format;
mod html;
pub mod lines;
mod markdown;
mod markup;
pub mod paste;
mod pictures;
mod table;
pub mod trace;
pub mod words;

pub use format::ReportFormat;
pub use pictures::front;

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
