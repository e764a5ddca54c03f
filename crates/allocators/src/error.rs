//! Why tuning failed, and the words that allocators and callers share. Without a crate that derives: a service compiles this.

use std::fmt;

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No `install!` in this binary, so that we do not know its allocator.
    NotInstalled,
    /// The allocator has nothing of the kind.
    Unsupported {
        /// The allocator.
        allocator: &'static str,
        /// What it cannot do, and what may be done instead.
        what: &'static str,
    },
    /// The allocator refused.
    Refused {
        /// The allocator.
        allocator: &'static str,
        /// What was asked.
        what: &'static str,
        /// What it answered.
        why: String,
    },
    /// Settings that are wrong, or that the allocator did not take: a line each.
    Settings(Vec<String>),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotInstalled => out.write_str(
                "no allocator is installed: write `allocanary::install!();` once, at the root of the binary",
            ),
            Error::Unsupported { allocator, what } => write!(out, "{allocator}: {what}"),
            Error::Refused { allocator, what, why } => write!(out, "{allocator}: {what}: {why}"),
            Error::Settings(problems) => out.write_str(&problems.join("\n")),
        }
    }
}

impl std::error::Error for Error {}

/// A result whose error is ours.
pub type Result<T> = std::result::Result<T, Error>;

/// Freed pages, by how far they have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Freed by the program and still backed by memory.
    Dirty,
    /// Given back lazily (MADV_FREE): the kernel takes them when it needs them. jemalloc only.
    Muzzy,
}
