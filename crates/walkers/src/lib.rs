//! The walkers, a folder for each allocator by its name, and what is known of allocators without a walker.

mod bits;
pub(crate) mod elf;
mod globals;
pub(crate) mod jemalloc;
mod mimalloc;
mod musl;
mod named;
mod snmalloc;
mod sums;
pub mod system;
mod tcmalloc;

use crate::{Layout, Memory, Walk, Walker};

/// Every walker.
pub const ALL: &[&Walker] = &[&system::WALKER, &jemalloc::WALKER, &mimalloc::WALKER, &tcmalloc::WALKER];

/// By what an allocator is known whose heap no walker has found.
#[derive(Debug)]
pub struct Known {
    /// Its name in readings.
    pub name: &'static str,
    /// The beginnings of its libraries' names.
    pub libraries: &'static [&'static str],
    /// A text in its constants that survives stripping, if it is looked for. It is reversed, so that this program does not have it.
    pub text: Option<&'static [u8]>,
    /// Whether it is mapped under every other allocator, too.
    pub is_below_others: bool,
}

/// Every allocator that is known in one of these ways. Problems are told in this order.
pub const KNOWN: &[Known] =
    &[jemalloc::KNOWN, mimalloc::KNOWN, tcmalloc::KNOWN, snmalloc::KNOWN, musl::KNOWN, system::KNOWN];

/// The texts, reversed, each with its allocator's name.
pub fn texts() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    KNOWN.iter().filter_map(|known| Some((known.name, known.text?)))
}

/// A walk that has found nothing yet.
fn empty(memory: &dyn Memory, allocator: &'static str, version: impl Into<String>) -> Walk {
    Walk {
        allocator,
        version: version.into(),
        layout: Layout::of(memory),
        arenas: Vec::new(),
        live: 0,
        blocks: 0,
        cached: 0,
        breaks: 0,
        skipped: 0,
        moved: 0,
        swapped: 0,
        checks: Vec::new(),
        forecasts: Vec::new(),
        late: None,
    }
}
