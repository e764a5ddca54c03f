//! A frame of a stack, with names.

use std::sync::Arc;

/// A function that was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFrame {
    /// Its name; `module+0xoffset` if it has none.
    pub function: String,
    /// Where the name comes from.
    pub source: NameSource,
    /// The source file; empty if it is not known.
    pub file: String,
    /// The line; 0 if it is not known.
    pub line: u32,
    /// The program or library with its code; empty if there is none.
    pub module: String,
    /// The build-id of this module in hexadecimal digits; empty if it has none.
    pub build_id: Arc<str>,
    /// The bytes of its code; 0 if they are not known, or if it is inlined.
    pub code_bytes: u64,
    /// Distinguishes the function from others of the same name; `None` if only the name is known.
    pub identity: Option<Arc<FunctionId>>,
}

impl NamedFrame {
    /// Whether its function has a name, and is not an offset.
    pub fn is_named(&self) -> bool {
        self.source != NameSource::None
    }
}

/// Where the name of a function comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameSource {
    /// Nowhere: it has no name.
    #[default]
    None,
    /// Debug information (DWARF).
    Debug,
    /// The table of symbols, which a stripped file does not have.
    Symbols,
    /// The symbols that other files can bind to. A stripped file still has them.
    Exported,
    /// A perf map.
    Map,
}

/// All sources of names, with their words in JSON.
pub const SOURCES: [(NameSource, &str); 4] = [
    (NameSource::Debug, "debug_information"),
    (NameSource::Symbols, "symbols"),
    (NameSource::Exported, "exported_symbols"),
    (NameSource::Map, "perf_map"),
];

impl NameSource {
    /// Its word in JSON.
    pub fn word(self) -> Option<&'static str> {
        SOURCES.iter().find(|(source, _)| *source == self).map(|(_, word)| *word)
    }
}

/// Identifies a function within its module. Two values that differ in any field are two functions, even if their names
/// are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId {
    /// Its name with its scopes: namespaces, classes, and the enclosing function. Generic functions have their types.
    pub path: String,
    /// The whole path of the source file that declares it. For a symbol, only the file's name. Empty if it is not known.
    pub file: String,
    /// The line of its declaration; 0 if it is not known.
    pub line: u32,
    /// The column; 0 if it is not known.
    pub column: u32,
    /// The function's address in the module, if the place of its declaration is not known; else 0.
    pub address: u64,
}
