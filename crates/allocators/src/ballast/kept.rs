//! The guard under which the allocator keeps what is freed. In: what the allocator changed. Out: what it costs, and at
//! the end the settings as they were.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::allocator::{Allocator, Keeping};
use crate::error::Result;
use allocanary_kernel::units::Bytes;

/// While this lives, the installed allocator keeps freed memory. Made by [`Ballast::keep`](super::Ballast::keep).
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

    /// The most freed memory that stays resident on the guard's account, in all arenas together; none where the allocator
    /// keeps all (jemalloc and mimalloc: as much as the largest burst leaves).
    pub fn at_most(&self) -> Option<Bytes> {
        self.keeping.at_most.map(Bytes)
    }

    /// What the end of the guard cannot put back; none where all will be as it was.
    pub fn lost(&self) -> Option<&'static str> {
        self.keeping.lost
    }

    /// Gives back what is kept beyond the bytes that were asked for; how much that was. For after a burst, where the
    /// allocator sets no limit of its own: jemalloc purges whole arenas, those with most freed pages first. glibc has
    /// nothing to do, and mimalloc cannot tell free memory from used.
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
