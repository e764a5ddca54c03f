//! The walkers, one folder or file each, and the list of them.

mod bits;
pub(crate) mod elf;
pub mod glibc;
mod globals;
mod jemalloc;
mod mimalloc;
mod named;
mod sums;

use crate::{Layout, Walk, Walker};

/// Every walker.
pub const ALL: &[&Walker] = &[&glibc::WALKER, &jemalloc::WALKER, &mimalloc::WALKER];

/// A walk that has found nothing yet.
fn empty(allocator: &'static str, version: impl Into<String>) -> Walk {
    Walk {
        allocator,
        version: version.into(),
        layout: Layout::default(),
        arenas: Vec::new(),
        live: 0,
        blocks: 0,
        cached: 0,
        breaks: 0,
        skipped: 0,
        moved: 0,
        swapped: 0,
        checks: Vec::new(),
        forecasts: Vec::new(),
        late: None,
    }
}
