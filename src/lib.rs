//! allocanary: front door.

#[cfg(feature = "prometheus")]
pub use allocators::metrics;
pub use allocators::{Ballast, ballast, install, tuning};
pub use kernel::container;
#[cfg(feature = "arena")]
pub use structures::arena;
#[cfg(feature = "sort-buffer")]
pub use structures::sort_buffer;
#[cfg(feature = "blob-tree")]
pub use structures::{BlobTree, blob_tree};
pub use wrappers::{Counting, counting};
#[cfg(feature = "leaks")]
pub use wrappers::{Leaks, leaks};

/// Units of memory.
pub mod units {
    pub use kernel::units::Bytes;
}
