//! A frame of a stack, with names.

use std::sync::Arc;

/// A function that was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFrame {
    /// Its name; `module+0xoffset` if it has none.
    pub function: String,
    /// Whether `function` is a name, and not an offset.
    pub is_named: bool,
    /// The source file; empty if it is not known.
    pub file: String,
    /// The line; 0 if it is not known.
    pub line: u32,
    /// The program or library with its code; empty if there is none.
    pub module: String,
    /// Distinguishes the function from others of the same name; `None` if only the name is known.
    pub identity: Option<Arc<FunctionId>>,
}

/// Identifies a function within its module. Two values that differ in any field are two functions, even if their names
/// are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FunctionId {
    /// Its name with its scopes: namespaces, classes, and the enclosing function. Generic functions have their types.
    pub path: String,
    /// The whole path of the source file that declares it; for a symbol only the file's name; empty if it is not known.
    pub file: String,
    /// The line of its declaration; 0 if it is not known.
    pub line: u32,
    /// The column; 0 if it is not known.
    pub column: u32,
    /// The function's address in the module, if only its symbol is known; else 0.
    pub address: u64,
}
