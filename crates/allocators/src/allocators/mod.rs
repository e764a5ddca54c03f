//! The allocators, one file each. A binary is linked only with the allocator that it names.

mod effect;
#[cfg(target_env = "gnu")]
mod glibc;
#[cfg(feature = "jemalloc")]
mod jemalloc;
mod known;
#[cfg(feature = "mimalloc")]
mod mimalloc;
#[cfg(not(target_env = "gnu"))]
mod other_libc;
mod system;

#[cfg(feature = "jemalloc")]
pub use jemalloc::{ALSO as JEMALLOC_ALSO, Jemalloc, SETTINGS as JEMALLOC_SETTINGS, TUNED as JEMALLOC_TUNED};
pub use known::{KNOWN, Known, is_built, known};
#[cfg(feature = "mimalloc")]
pub use mimalloc::{Mimalloc, SETTINGS as MIMALLOC_SETTINGS, TUNED as MIMALLOC_TUNED};
pub use system::{SETTABLE as SYSTEM_SETTABLE, System, TUNED as SYSTEM_TUNED, settings as system_settings};
