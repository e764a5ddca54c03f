//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Analyses the heap of a process: reads its [`Memory`], and says what lies on each page. Each allocator has a folder with its name. Some
//! allocators have no walker: [`KNOWN`] says how they are recognised.
//!
//! 1. Each walker ([`ALL`]) looks for its allocator's structures, verifies them, and walks the heap.
//! 2. It puts what it finds on the pages of a [`Layout`]: live blocks, cached blocks, and the allocator's own structures. The rest is free.
//! 3. The [`Parts`] of a layout are resident bytes by use. Their sum is what the kernel counts as resident.
//!
//! All parsing works on copied bytes. Whatever these are, a walker neither panics nor hangs. This crate makes no system calls to read a
//! process: the caller implements [`Memory`], for a process, a core file, or the bytes of a test.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]

mod bits;
pub mod build_id;
mod copies;
mod copy;
pub mod counters;
mod counts;
#[cfg(test)]
mod damage;
mod elf;
mod fact;
#[doc(hidden)]
pub mod fake;
mod globals;
mod jemalloc;
mod known;
mod layout;
mod look;
mod machine;
mod memory;
mod mimalloc;
mod musl;
mod named;
mod pages;
mod piece;
mod snmalloc;
mod sums;
pub mod system;
mod tcmalloc;
mod walk;
mod walks;
mod window;

pub use allocanary_sys::proc::{Mapping, parse_maps};
pub use allocanary_text::parts::{OF_HEAP, PARTS, Part, Parts};
pub use copy::{CopyRoom, MemoryCopy, PIECE};
pub use fact::Fact;
pub use known::AllocatorMark;
pub use layout::{ArenaStretch, BlockKind, HeapBlock, Layout};
pub use machine::{Machine, Processor};
pub use memory::{Memory, ThreadId};
pub use pages::{PAGE, PageRun, PageState, PageStates};
pub use piece::Piece;
pub use walk::{CopyMoment, CountCheck, Forecast, HeapArena, Unknown, Walk, Walker};
pub use walks::{ALL, HeapWalks, best_of, walk_all, walked};
pub use window::Window;

/// Every allocator that can be recognised without a walk. Problems are reported in this order.
pub const KNOWN: &[AllocatorMark] =
    &[jemalloc::KNOWN, mimalloc::KNOWN, tcmalloc::KNOWN, snmalloc::KNOWN, musl::KNOWN, system::KNOWN];

/// The name of each allocator, with its text as it is stored: reversed (see [`AllocatorMark::text`]).
pub fn texts() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    KNOWN.iter().filter_map(|known| Some((known.name, known.text?)))
}
