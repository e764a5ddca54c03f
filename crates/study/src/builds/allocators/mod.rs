//! The allocators that can be built, each by its name: its releases, and how to find the version in its library's answer. In: nothing.
//! Out: tables.

mod jemalloc;
mod mimalloc;
mod part;
mod rpmalloc;
mod snmalloc;

use part::Part;

/// All allocators that can be built.
pub(crate) const ALL: &[Part] = &[mimalloc::PART, jemalloc::PART, snmalloc::PART, rpmalloc::PART];
