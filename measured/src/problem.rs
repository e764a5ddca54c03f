//! The reasons why there is no pair of readings.

/// Why there is no pair.
#[derive(Debug)]
pub enum Problem {
    /// A tool is not installed, so nothing can be measured here.
    Skipped(String),
    /// A program failed.
    Failed(String),
}
