//! The allocators, one file each. A binary is linked with the one that it names, and with no other.

#[cfg(feature = "jemalloc")]
mod jemalloc;
#[cfg(feature = "mimalloc")]
mod mimalloc;
mod system;

#[cfg(feature = "jemalloc")]
pub use jemalloc::{Jemalloc, SETTINGS as JEMALLOC_SETTINGS};
#[cfg(feature = "mimalloc")]
pub use mimalloc::{Mimalloc, SETTINGS as MIMALLOC_SETTINGS};
pub use system::{SETTABLE as SYSTEM_SETTABLE, SETTINGS as SYSTEM_SETTINGS, System};
