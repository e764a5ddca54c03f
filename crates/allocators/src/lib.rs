//! Internal to [allocanary](https://docs.rs/allocanary), which re-exports what a service uses. Any release may change
//! this crate.
//!
//! The part that a service ships: the contract of an allocator and the allocators that implement it, their settings
//! with read-back, `install!`, live tuning, metrics, and ballast.

// Numbers and texts are returned; only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod allocator;
pub mod allocators;
pub mod ballast;
pub mod budget;
pub mod error;
pub mod expected;
pub mod idle;
mod install;
#[cfg(feature = "prometheus")]
pub mod metrics;
#[cfg(feature = "profile")]
pub mod profile;
pub mod tuning;

pub use allocator::Allocator;
#[cfg(feature = "jemalloc")]
pub use allocators::jemalloc::Jemalloc;
#[cfg(feature = "mimalloc")]
pub use allocators::mimalloc::Mimalloc;
pub use allocators::system::System;
pub use ballast::Ballast;
pub use install::CHOSEN;
pub use tuning::idle::{give_back, give_back_heap, give_back_in_wait};

/// Names for the code that [`install!`] generates. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::budget::{Wanted as BudgetWanted, counted::Counted};
    pub use crate::idle::Policy;
    pub use crate::install::{Conf, Installation, Request, TUNED, Value, boot, checked, count, setting_of};
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
