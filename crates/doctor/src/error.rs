//! Why a process cannot be read. In: a pid, a file, the system's error. Out: one line with all three.

/// The error that replaces the page.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
