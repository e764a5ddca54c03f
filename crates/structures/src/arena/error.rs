//! Why an arena refused. In: what was asked of it. Out: one line that names what was wanted, held and allowed.

/// What an arena answers instead of memory. What it held before is untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArenaError {
    /// It was asked for more than it may hold. All in bytes.
    #[error(
        "an arena that may hold {limit} bytes holds {held} in its chunks and was asked for {wanted} more: raise its limit or \
         reset it"
    )]
    Limit {
        /// What was asked for.
        wanted: usize,
        /// What its chunks are together.
        held: usize,
        /// What it may hold.
        limit: usize,
    },
    /// The allocator has no such chunk. All in bytes.
    #[error(
        "an arena that holds {held} bytes was asked for {wanted} more, and the allocator has no chunk of that size"
    )]
    Memory {
        /// What was asked for.
        wanted: usize,
        /// What its chunks are together.
        held: usize,
    },
    /// It was released.
    #[error("the arena was released: make a new one")]
    Released,
    /// It cannot be reset or trimmed while others may hold what lies in it.
    #[error("{others} other handles of arena {id} live: drop them first")]
    Shared {
        /// The arena.
        id: u64,
        /// Its handles beside the one that asked.
        others: usize,
    },
}
