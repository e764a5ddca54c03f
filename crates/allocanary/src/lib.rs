//! Allocator tuning for services: one line sets the global allocator, with settings that are checked and can be read back.
//!
//! [`install!`] declares the global allocator of a program: the system's malloc, jemalloc or mimalloc, with its
//! settings. The compiler checks the settings. At start they are sized by the CPUs that the container allows and
//! applied before the first allocation. Environment variables take precedence. The program calls the allocator
//! directly, unless you add a wrapper.
//!
//! ```
//! // At the root of the binary. One arena for each CPU of the container, not four for each of the host.
//! allocanary::install!(jemalloc, narenas = per_cpu(1), background_thread = true);
//!
//! fn main() -> Result<(), allocanary::tuning::Error> {
//!     allocanary::tuning::check() // did every setting of code and environment take effect?
//! }
//! ```
//!
//! - [`tuning`] changes and reads the allocator while the program runs: arenas, thread caches, decay, purge,
//!   statistics. [`tuning::thread_idle`] returns a thread's memory before the thread waits.
//! - [`container`] reads how many CPUs the affinity mask and the quota allow; [`units`] has amounts of memory.
//! - [`Ballast`] keeps freed memory through a burst, or reserves addresses for growth.
//! - `metrics` (feature `prometheus`) exports metrics of the allocator and of the process.
//! - `profile` (feature `profile`) says which call sites hold the heap, by samples, in the format of pprof.
//! - [`Counting`] and `Leaks` (feature `leaks`) wrap the allocator. `Counting` counts what is allocated; `Leaks`
//!   reports which call sites allocated the live blocks. `install!(jemalloc, wrap = Counting)`. `Recording` (feature
//!   `record`) writes every call to a file that `allocanary replay` executes under other allocators.
//! - `arena`, `sort_buffer` and `blob_tree` are data structures that make few allocations.
//!
//! # Features
//!
//! | feature | what it adds | by default |
//! |---|---|---|
//! | `jemalloc` | `install!(jemalloc)`, by the crates tikv-jemallocator, tikv-jemalloc-ctl and tikv-jemalloc-sys | yes |
//! | `mimalloc` | `install!(mimalloc)`, by the crates mimalloc and libmimalloc-sys | no |
//! | `stats` | jemalloc's own counters: 6 % more instructions for each pair of allocate and free | no |
//! | `system-alloc`, `mimalloc-alloc`, `jemalloc-alloc` | the allocator of `install!()` without a name; the first of the three that is on | `jemalloc-alloc` |
//! | `prometheus` | `metrics` for a registry of prometheus-client 0.25, and `stats` | no |
//! | `profile` | `install!(..., profile = "512KiB")` and `profile`, and the crates backtrace, prost and flate2; on x86-64 and aarch64 | no |
//! | `leaks` | `Leaks`, and the crate backtrace | no |
//! | `record` | `Recording` | no |
//! | `arena`, `sort-buffer`, `blob-tree` | the data structures with those names | no |
//!
//! A service compiles this crate, three small crates of allocanary, libc, and the allocator's crates. For another allocator
//! than jemalloc it turns the default features off:
//!
//! ```toml
//! allocanary = { version = "0.1", default-features = false, features = ["mimalloc"] }
//! ```
//!
//! # Platforms and guarantees
//!
//! - Linux, with glibc or musl, on 64-bit processors. Tested on x86-64. With musl, `system` has no settings.
//! - Rust 1.88 or later. A later minimum is a new minor version.
//! - No safe function is unsound, and none panics because of an answer of an allocator, the environment or the kernel.
//! - A call that an allocator cannot serve returns an [error](tuning::Error). No call is silently ignored.
//! - Types in `tuning` that will grow are `non_exhaustive`. Hidden items, and the crates named `allocanary-*`, may
//!   change with any release.
//!
//! # The command
//!
//! The command `allocanary` is another package, `allocanary-cli`. It says where the memory of a running process is, compares allocators
//! and settings with intervals and verdicts, and prints the lines to ship: see the README of the repository.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Numbers and texts are returned; only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

#[cfg(not(target_os = "linux"))]
compile_error!("allocanary reads /proc: it runs on Linux");

#[cfg(feature = "arena")]
#[cfg_attr(docsrs, doc(cfg(feature = "arena")))]
pub mod arena;
pub mod ballast;
#[cfg(feature = "blob-tree")]
#[cfg_attr(docsrs, doc(cfg(feature = "blob-tree")))]
pub mod blob_tree;
pub mod counting;
#[cfg(feature = "leaks")]
#[cfg_attr(docsrs, doc(cfg(feature = "leaks")))]
pub mod leaks;
#[cfg(feature = "prometheus")]
#[cfg_attr(docsrs, doc(cfg(feature = "prometheus")))]
pub mod metrics;
#[cfg(feature = "profile")]
#[cfg_attr(docsrs, doc(cfg(feature = "profile")))]
pub mod profile;
#[cfg(feature = "record")]
#[cfg_attr(docsrs, doc(cfg(feature = "record")))]
pub mod recording;
#[cfg(feature = "sort-buffer")]
#[cfg_attr(docsrs, doc(cfg(feature = "sort-buffer")))]
pub mod sort_buffer;
pub mod tuning;

// Cells and preloads also use the following modules. They are hidden, and may change with any release.
#[doc(hidden)]
pub mod allocator;
#[doc(hidden)]
pub mod allocators;
#[doc(hidden)]
pub mod budget;
mod error;
#[doc(hidden)]
pub mod expected;
#[doc(hidden)]
pub mod idle;
mod install;

#[doc(inline)]
pub use ballast::Ballast;
#[cfg(feature = "blob-tree")]
#[cfg_attr(docsrs, doc(cfg(feature = "blob-tree")))]
#[doc(inline)]
pub use blob_tree::BlobTree;
#[doc(inline)]
pub use counting::Counting;
#[cfg(feature = "leaks")]
#[cfg_attr(docsrs, doc(cfg(feature = "leaks")))]
#[doc(inline)]
pub use leaks::Leaks;
#[cfg(feature = "record")]
#[cfg_attr(docsrs, doc(cfg(feature = "record")))]
#[doc(inline)]
pub use recording::Recording;

#[doc(hidden)]
pub use allocator::Allocator;
#[cfg(feature = "jemalloc")]
#[doc(hidden)]
pub use allocators::jemalloc::Jemalloc;
#[cfg(feature = "mimalloc")]
#[doc(hidden)]
pub use allocators::mimalloc::Mimalloc;
#[doc(hidden)]
pub use allocators::system::System;
#[doc(hidden)]
pub use install::CHOSEN;
#[doc(hidden)]
pub use tuning::idle::{give_back, give_back_heap, give_back_in_wait};

/// The number of CPUs that the affinity mask and the container's quota allow.
pub mod container {
    #[doc(inline)]
    pub use allocanary_sys::container::{Cpus, Trouble};
}

/// Amounts of memory.
pub mod units {
    #[doc(inline)]
    pub use allocanary_text::units::Bytes;
}

/// Names for the code that [`install!`] generates. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::budget::{BudgetSpec, counted::Counted};
    pub use crate::idle::Policy;
    pub use crate::install::names as setting_names;
    pub use crate::install::{Conf, InstallSettings, Installation, TUNED, Value, boot, checked, count, setting_of};
    #[cfg(feature = "profile")]
    pub use crate::profile::{boot as boot_profile, mean_in_range, mean_of};
    pub use allocanary_facts as facts;
    pub use allocanary_facts::setting::const_bytes;
    #[cfg(feature = "profile")]
    pub use allocanary_sampler::service::Profiled;
    #[cfg(feature = "mimalloc")]
    pub use mimalloc;
    #[cfg(feature = "jemalloc")]
    pub use tikv_jemallocator as jemalloc;
}
