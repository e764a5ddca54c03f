//! The contract of a report: findings in, text out. The entries are in [`ALL`](crate::report::ALL).

use allocanary_measure::summary::Findings;
use allocanary_text::outside::TerminalStyle;

/// A way to show findings.
pub struct ReportFormat {
    /// Its name for `--format`.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub about: &'static str,
    /// Returns the whole text.
    pub render: fn(&Findings, &TerminalStyle) -> String,
}
