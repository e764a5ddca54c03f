//! Every way in which the command fails. In: what was being done. Out: one line that names the file, cell, setting or
//! line, what was wanted, what was found, and what to do next.

use std::path::PathBuf;

/// What the command says before it exits.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A candidate, workload or number that cannot be studied.
    #[error("{0}")]
    Input(String),
    /// A file or folder that could not be read, written or made.
    #[error("{path}: {doing}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was being done to it.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A study file that is not one. The text names line and key.
    #[error("{path}: {problem}")]
    StudyFile {
        /// The file.
        path: String,
        /// What the parser said.
        problem: String,
    },
    /// A cell that is missing, silent or of another build.
    #[error("{0}")]
    Cell(String),
    /// Rows that were moved or removed while they were being written.
    #[error("{0}")]
    Gone(String),
    /// No row that could be reported.
    #[error("{0}")]
    NoRows(String),
}

impl Error {
    /// An error about a file.
    pub fn file(path: impl Into<PathBuf>, doing: &'static str, source: std::io::Error) -> Self {
        Error::File { path: path.into(), doing, source }
    }
}

/// A result whose error is ours.
pub type Result<T> = std::result::Result<T, Error>;
