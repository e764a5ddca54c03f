//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! The heap of a process, taken apart: the [`Memory`] of a process in, what lies on each page of its heap out. A folder for each allocator by its name, and what is known
//! of allocators without a walker.
//!
//! 1. Each of the walkers ([`ALL`]) looks for its allocator's structures, which prove themselves, and walks them.
//! 2. It puts what it finds on the pages of a [`Layout`]: blocks that are live, cached, free, and the allocator's own structures.
//! 3. The [`Parts`] of a layout are bytes that are resident, by what they are. They add up to what the kernel counts.
//!
//! All parsing works on copied bytes: whatever they are, a walker neither panics nor hangs. No system call is made here: whoever has a
//! process, a core file or bytes in a test implements [`Memory`].

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
pub use memory::{Memory, ThreadId};
pub use pages::{PAGE, PageRun, PageState, PageStates};
pub use piece::Piece;
pub use walk::{CopyMoment, CountCheck, Forecast, HeapArena, Unknown, Walk, Walker};
pub use walks::{ALL, HeapWalks, best_of, walk_all, walked};
pub use window::Window;

/// Every allocator that is known in one of these ways. Problems are told in this order.
pub const KNOWN: &[AllocatorMark] =
    &[jemalloc::KNOWN, mimalloc::KNOWN, tcmalloc::KNOWN, snmalloc::KNOWN, musl::KNOWN, system::KNOWN];

/// The texts, reversed, each with its allocator's name.
pub fn texts() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    KNOWN.iter().filter_map(|known| Some((known.name, known.text?)))
}
