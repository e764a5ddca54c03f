//! Every error of the command. In: the failed operation. Out: one line. It names the file, cell, setting or line, what was expected, what
//! was found, and what to do next.

use std::path::PathBuf;

use allocanary_text::outside::harmless;

/// The message of the command before it exits.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A candidate, workload or number that cannot be studied.
    #[error("{0}")]
    Input(String),
    /// A file or folder that could not be read, written or created.
    #[error("{}: {doing}: {}", harmless(&path.display().to_string()), with_limit(source))]
    File {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file that is not a valid study. The text names line and key.
    #[error("{}: {problem}", harmless(path))]
    StudyFile {
        /// The file.
        path: String,
        /// The parser's message.
        problem: String,
    },
    /// A cell that is missing, does not answer, or is another build.
    #[error("{0}")]
    Cell(String),
    /// Rows that were moved or removed while they were being written.
    #[error("{0}")]
    Gone(String),
    /// A time budget that is too small for an answer. What was measured is on disk.
    #[error("{said}")]
    TimeBudget {
        /// The reason.
        said: String,
        /// The seconds by which a larger budget would be enough.
        more: f64,
    },
    /// The user stopped the command. What was measured is on disk.
    #[error("interrupted")]
    Interrupted,
    /// There is no row to report.
    #[error("{0}")]
    NoRows(String),
}

impl Error {
    /// An error about a file.
    pub fn file(path: impl Into<PathBuf>, doing: &'static str, source: std::io::Error) -> Self {
        Error::File { path: path.into(), doing, source }
    }
}

/// The system's error. If a limit was reached, the text names the limit and gives advice.
pub fn with_limit(error: &std::io::Error) -> String {
    let limit = match error.raw_os_error() {
        Some(libc::EMFILE) => "the limit of open files is reached: raise `ulimit -n`",
        Some(libc::ENFILE) => "the machine's limit of open files is reached: raise the sysctl fs.file-max",
        Some(libc::EAGAIN) => {
            "the limit of processes and threads is reached: raise `ulimit -u`, or the container's limit of pids"
        }
        _ => return error.to_string(),
    };
    format!("{error}: {limit}")
}

impl From<allocanary_trace::error::Error> for Error {
    /// A trace that cannot be read or written.
    fn from(error: allocanary_trace::error::Error) -> Self {
        Error::Input(error.to_string())
    }
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
