//! Why a process cannot be looked at. In: a pid, a file, what the system said. Out: one line that names all three.

/// What the doctor says instead of a page.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// A result whose error is ours.
pub type Result<T> = std::result::Result<T, Error>;
