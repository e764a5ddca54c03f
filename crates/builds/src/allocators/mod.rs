//! The allocators that can be built, each by its name: its releases, and how its library tells its version. In: nothing. Out: tables.

mod jemalloc;
mod mimalloc;
mod rpmalloc;
mod snmalloc;

use crate::releases::Release;

/// An allocator that can be built.
pub(crate) struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its releases, the newest first. The crates' own sources are the source of each version.
    pub releases: &'static [Release],
    /// The version in the library's own answer.
    pub version: fn(&str) -> Option<String>,
}

/// All of them.
pub(crate) const ALL: &[Part] = &[mimalloc::PART, jemalloc::PART, snmalloc::PART, rpmalloc::PART];

/// The answer is the version.
fn as_told(told: &str) -> Option<String> {
    Some(told.into())
}
