//! A frame of a stack, as people read it.

use std::sync::Arc;

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
    /// What tells the function from others of its name; `None` if only the name is known.
    pub identity: Option<Arc<Identity>>,
}

/// A function among all of its module. Two that differ in anything here are two functions, whatever they are called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its name with all that it is in: namespaces, classes, and the enclosing function. Generic functions with their types.
    pub path: String,
    /// The whole path of the source file that declares it; of a symbol only the name; empty if it is not known.
    pub file: String,
    /// The line of its declaration; 0 if it is not known.
    pub line: u32,
    /// The column; 0 if it is not known.
    pub column: u32,
    /// The address in the module of a function of which only the symbol is known; else 0.
    pub address: u64,
}
