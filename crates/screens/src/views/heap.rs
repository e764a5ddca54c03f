//! The memory of a running process. In: readings. Out: texts for a terminal, and a page.

mod brief;
mod columns;
mod deeper;
mod difference;
mod histogram;
mod many;
mod map;
mod over_time;
mod page;
mod text;

pub use brief::brief;
pub(crate) use columns::columns;
pub use difference::difference;
pub use many::{ProcessLines, tree};
pub use over_time::{head, line};
pub use page::page;
pub use text::{headline, subject, text};

use allocanary_text::outside::{TerminalStyle, harmless, harmless_lines};
use allocanary_text::units::Bytes;

/// Bytes as a table shows them.
fn bytes(number: u64) -> String {
    Bytes(number).to_string()
}

/// A part of a whole, in percent.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// A heading.
pub(crate) fn bold(text: &str, look: &TerminalStyle) -> String {
    let text = harmless_lines(text);
    if look.color { format!("\x1b[1m{text}\x1b[0m") } else { text.into_owned() }
}

/// An item of a list.
pub(crate) fn item(text: &str, look: &TerminalStyle) -> String {
    // A saved reading may have been written by anybody.
    let lines = crate::draw::wrapped(&harmless(text), usize::from(look.width).saturating_sub(4));
    format!("  - {}\n", lines.replace('\n', "\n    "))
}

#[cfg(test)]
mod tests;
