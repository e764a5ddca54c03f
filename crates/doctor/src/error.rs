//! The error for a process that cannot be read, in one line: the process ID, the file, and the system's error.

/// The error that replaces the page.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
