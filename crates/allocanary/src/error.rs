//! Errors of tuning, and the types that allocators and callers share. No derive crate is used, because every service
//! compiles this.

use std::fmt;

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// This binary has no `install!`, so its allocator is unknown.
    NotInstalled,
    /// The allocator has no such function.
    Unsupported {
        /// The allocator.
        allocator: &'static str,
        /// What it cannot do, and what to use instead.
        what: &'static str,
    },
    /// The allocator refused.
    Refused {
        /// The allocator.
        allocator: &'static str,
        /// What was requested.
        what: &'static str,
        /// The allocator's answer.
        why: String,
    },
    /// Settings that are invalid, or that the allocator did not accept: one line each.
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

/// A result with this module's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The two states of freed pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Freed by the program, still backed by memory.
    Dirty,
    /// Returned lazily (MADV_FREE): the kernel takes them when it needs memory. jemalloc only.
    Muzzy,
}
