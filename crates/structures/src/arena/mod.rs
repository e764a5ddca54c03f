//! An arena: memory that is handed out piece by piece and given back at once.
//! In: values and sizes. Out: references that live as long as the arena is neither reset nor released.
//!
//! The chunks are bumpalo's: each twice the one before, every piece aligned as its type wants, and no byte more than
//! that (an arena that adds 7 bytes to find an aligned place spends 23 on a node of 16). Around it stands what a service
//! needs: an upper limit that is an error value and not a panic, the sizes, and [`SharedArena`] with its registry.
//!
//! An [`Arena`] belongs to one thread at a time (it is `Send` and not `Sync`), so that its fast path is a subtraction and
//! a comparison; a [`SharedArena`] takes a lock for each piece. One atomic counter for chunk and place together, which
//! needs no lock, was what Dgraph's arena had: six threads that ask for 1 GiB each carry it over into the chunk's number.

mod error;
mod shared;

use std::alloc::Layout;
use std::ptr::NonNull;

use bumpalo::Bump;

pub use error::ArenaError;
pub use shared::SharedArena;

/// A result whose error is the arena's.
pub type Result<T> = std::result::Result<T, ArenaError>;

/// Memory that is handed out piece by piece and given back at once.
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

/// What an arena holds, in bytes. `reserved` = `used` + `lost` + what is still free in the newest chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Handed out, with what alignment skipped.
    pub used: usize,
    /// Left over at the ends of the older chunks, because the next piece did not fit there.
    pub lost: usize,
    /// All chunks, without bumpalo's footer of 48 bytes in each.
    pub reserved: usize,
}

impl Arena {
    /// An empty arena; its first chunk has about 512 bytes.
    pub fn new() -> Self {
        Arena::default()
    }

    /// An arena whose first chunk, of at least `bytes`, is there from the start.
    pub fn with_capacity(bytes: usize) -> Result<Self> {
        if bytes > MOST {
            return Err(ArenaError::Memory { wanted: bytes, held: 0 });
        }
        let bump = Bump::try_with_capacity(bytes).map_err(|_| ArenaError::Memory { wanted: bytes, held: 0 })?;
        Ok(Arena { bump, ..Arena::default() })
    }

    /// The arena with an upper limit in bytes.
    ///
    /// The limit counts chunks, whole ones: past what the arena has already it is never passed, and an arena near it may
    /// refuse a piece that would fit by the byte, because a new chunk is made of pages and is up to twice as large as the
    /// piece.
    pub fn limited(mut self, bytes: usize) -> Self {
        self.limit = Some(bytes);
        self.pass_limit_on();
        self
    }

    fn pass_limit_on(&self) {
        // bumpalo takes a limit below what it holds for no limit at all. A released arena stays one.
        let limit = self.limit.map(|limit| limit.max(self.bump.allocated_bytes()));
        self.bump.set_allocation_limit(if self.released { Some(0) } else { limit });
    }

    /// Moves `value` into the arena. Its destructor will not run; a type that has one is refused while compiling.
    #[inline]
    #[allow(clippy::mut_from_ref)] // every call gives another piece
    pub fn alloc<T>(&self, value: T) -> Result<&mut T> {
        const { assert!(!std::mem::needs_drop::<T>(), "an arena runs no destructors") };
        self.refuse_nothing(size_of::<T>())?;
        self.bump.try_alloc(value).map_err(|_| self.refusal(size_of::<T>()))
    }

    /// Copies `bytes` into the arena.
    #[inline]
    #[allow(clippy::mut_from_ref)] // every call gives another piece
    pub fn copy(&self, bytes: &[u8]) -> Result<&mut [u8]> {
        self.refuse_nothing(bytes.len())?;
        self.bump.try_alloc_slice_copy(bytes).map_err(|_| self.refusal(bytes.len()))
    }

    /// A piece of the wanted size and alignment, not initialised. It is ours to use until the arena is reset,
    /// released or dropped.
    #[inline]
    pub fn alloc_layout(&self, layout: Layout) -> Result<NonNull<u8>> {
        // bumpalo panics where size and alignment together pass the address space.
        if layout.size() > MOST || layout.align() > MOST {
            return Err(self.refusal(layout.size()));
        }
        self.refuse_nothing(layout.size())?;
        self.bump.try_alloc_layout(layout).map_err(|_| self.refusal(layout.size()))
    }

    /// Fails where a released arena is asked for no bytes: those need no chunk, so bumpalo always has them.
    #[inline(always)]
    fn refuse_nothing(&self, wanted: usize) -> Result<()> {
        if wanted == 0 && self.released { Err(ArenaError::Released) } else { Ok(()) }
    }

    #[cold]
    fn refusal(&self, wanted: usize) -> ArenaError {
        let held = self.bump.allocated_bytes();
        match self.limit {
            _ if self.released => ArenaError::Released,
            // A chunk may be twice the piece and a page; where even that is allowed, it was not the limit.
            Some(limit) if limit.saturating_sub(held) < wanted.saturating_mul(2).saturating_add(2 * 4096) => {
                ArenaError::Limit { wanted, held, limit }
            }
            _ => ArenaError::Memory { wanted, held },
        }
    }

    /// What the arena holds. Walks the chunks, of which there are few: nothing is counted while pieces are handed out.
    pub fn sizes(&self) -> Sizes {
        let reserved = self.bump.allocated_bytes();
        // SAFETY: nothing is allocated while the iterator lives, and only the chunks' lengths are read.
        let used = unsafe { self.bump.iter_allocated_chunks_raw() }.map(|(_, length)| length).sum();
        Sizes { used, lost: reserved - used - self.bump.chunk_capacity(), reserved }
    }

    /// Forgets all that was handed out and keeps the newest chunk, the largest.
    pub fn reset(&mut self) {
        self.bump.reset();
        self.pass_limit_on();
    }

    /// Forgets all that was handed out, and keeps the newest chunk where it has at most `bytes`. An arena that is
    /// left without a chunk makes a new one when it is asked again.
    pub fn trim_to(&mut self, bytes: usize) {
        self.reset();
        if self.bump.allocated_bytes() > bytes {
            self.give_back();
        }
    }

    /// Gives all memory back. The arena refuses from then on; a second release does nothing.
    pub fn release(&mut self) {
        // The fast path knows no flag: without a chunk and with a limit of 0 it is never taken.
        self.released = true;
        self.give_back();
    }

    fn give_back(&mut self) {
        self.bump = Bump::new();
        self.pass_limit_on();
    }

    /// The arena for many threads, under an id of its own. One that was released is not found by it.
    pub fn share(self) -> SharedArena {
        SharedArena::new(self)
    }

    /// The shared arena of that id, while it lives and is not released.
    pub fn from_id(id: u64) -> Option<SharedArena> {
        SharedArena::from_id(id)
    }
}

/// More than any allocator gives, and less than bumpalo's sums overflow at.
const MOST: usize = isize::MAX as usize / 4;

#[cfg(test)]
mod tests;
