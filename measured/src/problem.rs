//! Why there is no pair of readings.

/// Why there is no pair.
#[derive(Debug)]
pub enum Problem {
    /// It cannot be measured here: a tool is not installed.
    Skipped(String),
    /// A program failed.
    Failed(String),
}
