//! Why an arena refused a request. In: the request. Out: one line with the requested, present and allowed sizes.

/// The error of an arena. Its existing pieces are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The request exceeds the arena's limit. All sizes in bytes.
    #[error(
        "an arena that may hold {limit} bytes holds {held} in its chunks and was asked for {wanted} more: raise its limit or \
         reset it"
    )]
    Limit {
        /// The requested size.
        wanted: usize,
        /// The size of all its chunks.
        held: usize,
        /// The limit.
        limit: usize,
    },
    /// The allocator could not provide a chunk. All sizes in bytes.
    #[error(
        "an arena that holds {held} bytes was asked for {wanted} more, and the allocator has no chunk of that size"
    )]
    Memory {
        /// The requested size.
        wanted: usize,
        /// The size of all its chunks.
        held: usize,
    },
    /// The arena was released.
    #[error("the arena was released: make a new one")]
    Released,
    /// The arena cannot be reset or trimmed while other handles may have references into it.
    #[error("{others} other handles of arena {id} live: drop them first")]
    Shared {
        /// The arena.
        id: u64,
        /// The number of its other handles.
        others: usize,
    },
}
