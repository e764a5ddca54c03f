//! An arena: memory that is allocated piece by piece and freed all at once.
//! In: values and sizes. Out: references that are valid until the arena is reset or released.
//!
//! The chunks are bumpalo's. Each is twice as large as the one before. Every piece has the alignment of its type,
//! without further bytes (an arena that adds 7 bytes to find an aligned place uses 23 for a node of 16). This module
//! adds what a service needs: an upper limit with an error instead of a panic, the sizes, and [`SharedArena`] with its
//! registry.
//!
//! An [`Arena`] belongs to one thread at a time (it is `Send` and not `Sync`), so that its fast path is a subtraction
//! and a comparison. A [`SharedArena`] takes a lock for each piece. Dgraph's arena had no lock, but one atomic counter
//! for chunk and offset together: if six threads request 1 GiB each, the offset overflows into the chunk's number.

mod error;
mod shared;

use std::alloc::Layout;
use std::ptr::NonNull;

use bumpalo::Bump;

pub use error::ArenaError;
pub use shared::SharedArena;

/// A result whose error is the arena's.
pub type Result<T> = std::result::Result<T, ArenaError>;

/// Memory that is allocated piece by piece and freed all at once.
///
/// ```
/// let arena = allocanary::arena::Arena::new();
/// let node = arena.alloc((1_u64, 2_u64))?;
/// node.0 = 3;
/// assert_eq!(arena.sizes().used, 16);
/// # Ok::<(), allocanary::arena::ArenaError>(())
/// ```
#[derive(Debug, Default)]
pub struct Arena {
    bump: Bump,
    limit: Option<usize>,
    released: bool,
}

/// The sizes of an arena, in bytes. `reserved` = `used` + `lost` + the free bytes in the newest chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sizes {
    /// Bytes of all pieces, including the bytes that alignment skipped.
    pub used: usize,
    /// Unused bytes at the ends of the older chunks, where the next piece did not fit.
    pub lost: usize,
    /// Bytes of all chunks, without bumpalo's footer of 48 bytes in each.
    pub reserved: usize,
}

impl Arena {
    /// An empty arena. Its first chunk has about 512 bytes.
    pub fn new() -> Self {
        Arena::default()
    }

    /// An arena with a first chunk of at least `bytes`, allocated immediately.
    pub fn with_capacity(bytes: usize) -> Result<Self> {
        if bytes > MOST {
            return Err(ArenaError::Memory { wanted: bytes, held: 0 });
        }
        let bump = Bump::try_with_capacity(bytes).map_err(|_| ArenaError::Memory { wanted: bytes, held: 0 })?;
        Ok(Arena { bump, ..Arena::default() })
    }

    /// The arena with an upper limit in bytes.
    ///
    /// The limit is for whole chunks. The arena never grows beyond it, but keeps the chunks that it already has. Near
    /// the limit it may refuse a piece that would fit by its size, because a new chunk consists of pages and is up to
    /// twice as large as the piece.
    pub fn limited(mut self, bytes: usize) -> Self {
        self.limit = Some(bytes);
        self.pass_limit_on();
        self
    }

    fn pass_limit_on(&self) {
        // bumpalo treats a limit below its present size as no limit. A released arena stays released.
        let limit = self.limit.map(|limit| limit.max(self.bump.allocated_bytes()));
        self.bump.set_allocation_limit(if self.released { Some(0) } else { limit });
    }

    /// Moves `value` into the arena. Destructors do not run: a type with a destructor is a compile error.
    #[inline]
    #[allow(clippy::mut_from_ref)] // every call returns another piece
    pub fn alloc<T>(&self, value: T) -> Result<&mut T> {
        const { assert!(!std::mem::needs_drop::<T>(), "an arena runs no destructors") };
        self.refuse_nothing(size_of::<T>())?;
        self.bump.try_alloc(value).map_err(|_| self.refusal(size_of::<T>()))
    }

    /// Copies `bytes` into the arena.
    #[inline]
    #[allow(clippy::mut_from_ref)] // every call returns another piece
    pub fn copy(&self, bytes: &[u8]) -> Result<&mut [u8]> {
        self.refuse_nothing(bytes.len())?;
        self.bump.try_alloc_slice_copy(bytes).map_err(|_| self.refusal(bytes.len()))
    }

    /// A piece of the requested size and alignment, not initialised. The caller may use it until the arena is reset,
    /// released or dropped.
    #[inline]
    pub fn alloc_layout(&self, layout: Layout) -> Result<NonNull<u8>> {
        // bumpalo panics if size and alignment together exceed the address space.
        if layout.size() > MOST || layout.align() > MOST {
            return Err(self.refusal(layout.size()));
        }
        self.refuse_nothing(layout.size())?;
        self.bump.try_alloc_layout(layout).map_err(|_| self.refusal(layout.size()))
    }

    /// Fails for 0 bytes from a released arena. They need no chunk, so bumpalo itself would always succeed.
    #[inline(always)]
    fn refuse_nothing(&self, wanted: usize) -> Result<()> {
        if wanted == 0 && self.released { Err(ArenaError::Released) } else { Ok(()) }
    }

    #[cold]
    fn refusal(&self, wanted: usize) -> ArenaError {
        let held = self.bump.allocated_bytes();
        match self.limit {
            _ if self.released => ArenaError::Released,
            // A chunk may have twice the size of the piece plus a page. If even that is allowed, the limit was not the
            // cause.
            Some(limit) if limit.saturating_sub(held) < wanted.saturating_mul(2).saturating_add(2 * 4096) => {
                ArenaError::Limit { wanted, held, limit }
            }
            _ => ArenaError::Memory { wanted, held },
        }
    }

    /// The sizes of the arena. It walks the few chunks, because nothing is counted while pieces are allocated.
    pub fn sizes(&self) -> Sizes {
        let reserved = self.bump.allocated_bytes();
        // SAFETY: nothing is allocated while the iterator lives, and only the chunks' lengths are read.
        let used = unsafe { self.bump.iter_allocated_chunks_raw() }.map(|(_, length)| length).sum();
        Sizes { used, lost: reserved - used - self.bump.chunk_capacity(), reserved }
    }

    /// Frees all pieces and keeps the newest chunk, which is the largest.
    pub fn reset(&mut self) {
        self.bump.reset();
        self.pass_limit_on();
    }

    /// Frees all pieces, and keeps the newest chunk if it has at most `bytes`. An arena without a chunk allocates a new
    /// one for the next piece.
    pub fn trim_to(&mut self, bytes: usize) {
        self.reset();
        if self.bump.allocated_bytes() > bytes {
            self.give_back();
        }
    }

    /// Frees all memory. From then on the arena refuses every request. A second release does nothing.
    pub fn release(&mut self) {
        // The fast path needs no flag: without a chunk and with a limit of 0 it is never taken.
        self.released = true;
        self.give_back();
    }

    fn give_back(&mut self) {
        self.bump = Bump::new();
        self.pass_limit_on();
    }

    /// The arena for many threads, under a new id. A released arena cannot be found by its id.
    pub fn share(self) -> SharedArena {
        SharedArena::new(self)
    }

    /// The shared arena with this id, while it exists and is not released.
    pub fn from_id(id: u64) -> Option<SharedArena> {
        SharedArena::from_id(id)
    }
}

/// More than any allocator can provide, and less than the sizes at which bumpalo's sums overflow.
const MOST: usize = isize::MAX as usize / 4;

#[cfg(test)]
mod tests;
