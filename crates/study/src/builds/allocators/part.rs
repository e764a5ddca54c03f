//! An allocator as an entry of the table. In: nothing. Out: the type, and what several entries share.

use crate::builds::release::Release;

/// An allocator that can be built.
pub(crate) struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its releases, the newest first. Their versions are those in the crates' own sources.
    pub releases: &'static [Release],
    /// Finds the version in the library's own answer.
    pub version: fn(&str) -> Option<String>,
}

/// For a library whose answer is the version.
pub(super) fn as_told(told: &str) -> Option<String> {
    Some(told.into())
}
