//! allocanary for programs in C and Go. In: calls of `allocanary.h`. Out: an error code for each, never a panic.
//!
//! Exactly one feature must be on, and chooses the variant. To link the library is enough: it sets its allocator up before `main`. The
//! number of arenas follows the processors that the container gives, and the environment takes precedence. In the shared variants C's own
//! `malloc` is the same heap. In the other variants C keeps its own heap, and only this library's memory is in the allocator's.
//!
//! A memory budget is off by default, and `ALLOCANARY_MEMORY_BUDGET` turns it on. The profile is off too, and `ALLOCANARY_PROFILE` or a
//! call turns it on.

mod border;
mod descriptor;
mod heap;
mod metrics;
mod pressure;
mod profile;
mod service;
mod statistics;
mod tuning;

use std::ffi::{CStr, c_char};

#[cfg(all(feature = "system", target_env = "gnu"))]
allocanary::install!(system, arena_max = auto, memory_budget = off, profile = off);
// The malloc of another C library has no arenas that could be limited.
#[cfg(all(feature = "system", not(target_env = "gnu")))]
allocanary::install!(system, memory_budget = off, profile = off);
#[cfg(feature = "jemalloc")]
allocanary::install!(jemalloc, narenas = auto, memory_budget = off, profile = off);
#[cfg(feature = "jemalloc-shared")]
allocanary::install!(jemalloc_unprefixed, narenas = auto, memory_budget = off, profile = off);
#[cfg(any(feature = "mimalloc", feature = "mimalloc-shared"))]
allocanary::install!(mimalloc, memory_budget = off, profile = off);

/// The variants that are turned on.
const VARIANTS: &[&CStr] = &[
    #[cfg(feature = "system")]
    c"system",
    #[cfg(feature = "jemalloc")]
    c"jemalloc",
    #[cfg(feature = "mimalloc")]
    c"mimalloc",
    #[cfg(feature = "jemalloc-shared")]
    c"jemalloc-shared",
    #[cfg(feature = "mimalloc-shared")]
    c"mimalloc-shared",
];

const _: () = assert!(
    VARIANTS.len() == 1,
    "turn on one of the features system, jemalloc, mimalloc, jemalloc-shared, mimalloc-shared"
);

/// The variant of this library: `system`, `jemalloc`, `mimalloc`, `jemalloc-shared` or `mimalloc-shared`. The text is
/// static: do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_variant() -> *const c_char {
    VARIANTS[0].as_ptr()
}
