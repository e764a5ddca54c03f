//! Why tuning failed, and the words that allocators and callers share. The ground floor of tuning: the allocators stand on it.

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No `install!` in this binary, so that we do not know its allocator.
    #[error("no allocator is installed: write `allocanary::install!();` once, at the root of the binary")]
    NotInstalled,
    /// The allocator has nothing of the kind.
    #[error("{allocator}: {what}")]
    Unsupported {
        /// The allocator.
        allocator: &'static str,
        /// What it cannot do, and what may be done instead.
        what: &'static str,
    },
    /// The allocator refused.
    #[error("{allocator}: {what}: {why}")]
    Refused {
        /// The allocator.
        allocator: &'static str,
        /// What was asked.
        what: &'static str,
        /// What it answered.
        why: String,
    },
    /// Settings that are wrong, or that the allocator did not take: a line each.
    #[error("{}", .0.join("\n"))]
    Settings(Vec<String>),
}

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
