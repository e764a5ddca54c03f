//! What a text is shown on. In: nothing. Out: a value that reports and pages are written for.

/// What a report is shown on.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Whether colours may be used.
    pub color: bool,
    /// Characters in a line.
    pub width: u16,
}
