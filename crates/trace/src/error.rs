//! Errors of traces. Each names the file, what was wanted, and what was found.

use std::fmt;
use std::path::Path;

/// What is wrong with a trace.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Error(text.into())
    }

    /// An error of the system with a file.
    pub fn file(path: &Path, doing: &str, error: impl fmt::Display) -> Self {
        Error(format!("{}: {doing}: {error}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// A result with the error of this crate.
pub type Result<T> = std::result::Result<T, Error>;
