//! The allocators that can be built, each by its name: its releases, and how to find the version in its library's answer. In: nothing.
//! Out: tables.

mod jemalloc;
mod mimalloc;
mod rpmalloc;
mod snmalloc;

use crate::releases::Release;

/// An allocator that can be built.
pub(crate) struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its releases, the newest first. Their versions are those in the crates' own sources.
    pub releases: &'static [Release],
    /// Finds the version in the library's own answer.
    pub version: fn(&str) -> Option<String>,
}

/// All allocators that can be built.
pub(crate) const ALL: &[Part] = &[mimalloc::PART, jemalloc::PART, snmalloc::PART, rpmalloc::PART];

/// For a library whose answer is the version.
fn as_told(told: &str) -> Option<String> {
    Some(told.into())
}
