//! The contract of a report: findings in, text out. The entries are in [`reports`](crate::reports).

use crate::summary::Findings;
use allocanary_kernel::terminal::Look;

/// A way to show findings.
pub struct Report {
    /// Its name, as `--format` takes it.
    pub name: &'static str,
    /// What it is for, in one line.
    pub about: &'static str,
    /// Writes all of it.
    pub render: fn(&Findings, &Look) -> String,
}
