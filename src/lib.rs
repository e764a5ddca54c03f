//! allocanary: front door.

#[cfg(feature = "prometheus")]
pub use allocanary_allocators::metrics;
pub use allocanary_allocators::{Ballast, ballast, install, tuning};
pub use allocanary_kernel::container;
#[cfg(feature = "arena")]
pub use allocanary_structures::arena;
#[cfg(feature = "sort-buffer")]
pub use allocanary_structures::sort_buffer;
#[cfg(feature = "blob-tree")]
pub use allocanary_structures::{BlobTree, blob_tree};
pub use allocanary_wrappers::{Counting, counting};
#[cfg(feature = "leaks")]
pub use allocanary_wrappers::{Leaks, leaks};

/// Units of memory.
pub mod units {
    pub use allocanary_kernel::units::Bytes;
}
