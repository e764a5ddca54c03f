//! The allocators that can be linked, one folder each. A binary links only the allocator that it names.

mod effect;
#[cfg(feature = "jemalloc")]
pub mod jemalloc;
#[cfg(feature = "mimalloc")]
pub mod mimalloc;
pub mod system;
