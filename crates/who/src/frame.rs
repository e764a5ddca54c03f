//! A frame of a stack, as people read it.

/// A function that was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its name; `module+0xoffset` where it has none.
    pub function: String,
    /// Whether that is a name.
    pub is_named: bool,
    /// The source file; empty if it is not known.
    pub file: String,
    /// The line; 0 if it is not known.
    pub line: u32,
    /// The file that has its code; empty if none has.
    pub module: String,
}
