//! The guard under which the allocator keeps freed memory. In: what the allocator changed. Out: its cost, and at the
//! end the previous settings.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::allocator::{Allocator, Keeping};
use crate::error::Result;
use allocanary_text::units::Bytes;

/// While this value lives, the installed allocator keeps freed memory. Made by [`Ballast::keep`](super::Ballast::keep).
#[must_use = "memory is kept only while the guard lives"]
pub struct Kept {
    allocator: &'static dyn Allocator,
    bytes: Bytes,
    keeping: Keeping,
    taken: &'static AtomicBool,
}

impl Kept {
    pub(super) fn new(
        allocator: &'static dyn Allocator,
        bytes: Bytes,
        keeping: Keeping,
        taken: &'static AtomicBool,
    ) -> Self {
        Kept { allocator, bytes, keeping, taken }
    }

    /// The maximum of freed memory that stays resident because of the guard, over all arenas together. `None` if the
    /// allocator keeps all freed memory (jemalloc and mimalloc: as much as the largest burst leaves).
    pub fn at_most(&self) -> Option<Bytes> {
        self.keeping.at_most.map(Bytes)
    }

    /// What the end of the guard cannot restore; `None` if it restores everything.
    pub fn lost(&self) -> Option<&'static str> {
        self.keeping.lost
    }

    /// Returns to the system the freed memory above the requested bytes, and returns how much that was. Call it after a
    /// burst with an allocator that sets no limit itself: jemalloc purges whole arenas, those with the most freed pages
    /// first. glibc has nothing to do. mimalloc returns an error, because it cannot tell free memory from used.
    pub fn settle(&self) -> Result<Bytes> {
        self.allocator.settle(self.bytes.0).map(Bytes)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.allocator.stop_keeping(&self.keeping);
        self.taken.store(false, Ordering::Release);
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = out.debug_struct("Kept");
        out.field("allocator", &self.allocator.name()).field("bytes", &self.bytes).field("keeping", &self.keeping);
        out.finish()
    }
}
