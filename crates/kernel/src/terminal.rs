//! The output of a report. In: nothing. Out: a value that reports and pages are formatted for.

/// The properties of the output that a report is shown on.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Whether colours may be used.
    pub color: bool,
    /// Characters per line.
    pub width: u16,
}
