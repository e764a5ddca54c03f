//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Reports: findings in, text out. One file each: the terminal's table, Markdown, CSV, the page, the pictures, the page about a
//! trace, its call sites, the memory of a process, and the lines to paste.

// This crate returns texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

pub mod anatomies;
pub mod answer;
pub mod comparison;
pub mod contents;
mod csv;
pub mod door;
mod figures;
pub mod fleet;
mod format;
pub mod heap;
mod html;
pub mod json;
pub mod lines;
mod markdown;
mod markup;
#[cfg(test)]
mod of_rows;
mod page;
pub mod paste;
mod pictures;
pub mod production;
pub mod remedies;
pub mod table;
pub mod trace;
pub mod upgrade;
pub mod who;
pub mod words;
pub mod wrapper;

use textwrap::{Options, WordSeparator, WordSplitter};

pub use format::ReportFormat;
pub use pictures::front;

/// Every report. A terminal shows the first.
pub const ALL: &[&ReportFormat] = &[&table::REPORT, &markdown::REPORT, &csv::REPORT, &html::REPORT, &json::REPORT];

/// The report of that name.
pub fn find(name: &str) -> Option<&'static ReportFormat> {
    ALL.iter().copied().find(|report| report.name == name)
}

/// A sentence, broken at spaces into lines of at most `width` columns. A wider word gets a line for itself.
pub fn wrapped(text: &str, width: usize) -> String {
    let options = Options::new(width)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::fill(text.trim_start(), options)
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn a_sentence_is_broken_at_spaces_by_the_width_that_is_shown() {
        assert_eq!(wrapped("thread-local caches keep 2 MiB", 12), "thread-local\ncaches keep\n2 MiB");
        assert_eq!(wrapped("a https://example.org/long b", 8), "a\nhttps://example.org/long\nb");
        assert_eq!(wrapped("漢字 漢字 ab", 8), "漢字\n漢字 ab", "each of these takes two columns");
        assert_eq!(wrapped("", 8), "");
    }
}
