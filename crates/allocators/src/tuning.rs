//! Live tuning of the allocator that [`install!`](macro@crate::install) installed: the same words for all three where the
//! thing is the same. In: calls from any thread at any time. Out: what was done, or an error that says why it cannot be.
//!
//! What an allocator cannot do is [`Error::Unsupported`], never a silent no-op.
//!
//! ```no_run
//! allocanary::install!(jemalloc, narenas = 2);
//!
//! fn main() -> Result<(), allocanary::tuning::Error> {
//!     use allocanary::tuning::{self, Pages};
//!     tuning::check()?; // were all settings of code and environment taken?
//!     tuning::set_decay(Pages::Dirty, Some(std::time::Duration::ZERO))?;
//!     println!("{:?}", tuning::statistics()?);
//!     tuning::purge()
//! }
//! ```

mod idle;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::allocator::Allocator;
use crate::install::installed;

pub use crate::allocator::Counters;
pub use crate::error::{Error, Pages, Result};
pub use idle::{give_back, thread_idle, wait};

/// The name of the installed allocator.
pub fn allocator() -> Result<&'static str> {
    Ok(here()?.name())
}

/// Where the allocator's memory is, all threads together.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes, and arenas in use; `None` where this allocator cannot say.
    pub counters: Counters,
    /// Bytes in pages with blocks over bytes in blocks: 1 is no fragmentation. None where either is unknown.
    pub fragmentation: Option<f64>,
}

/// The allocator's own statistics. Costs microseconds, and with glibc a lock on each arena in turn. An error with a jemalloc that
/// was built without them (this crate's feature `stats`).
pub fn statistics() -> Result<Statistics> {
    let allocator = here()?;
    allocator.counts()?;
    let counters = allocator.counters();
    let fragmentation = counters.active.zip(counters.allocated).filter(|(_, allocated)| *allocated > 0);
    Ok(Statistics {
        counters,
        fragmentation: fragmentation.map(|(active, allocated)| active as f64 / allocated as f64),
    })
}

/// Gives back to the system, now, all memory that one thread can give back.
///
/// - jemalloc: the calling thread's cache, and the freed pages of all arenas. What other threads' caches hold stays.
/// - mimalloc: the calling thread's free pages, and what is free in the arenas. What other threads' heaps hold stays.
/// - glibc: the free pages within all arenas, and the top of the main arena and of the calling thread's. The tops of the
///   other threads' arenas stay, and so do the thread caches: no call reaches them from another thread.
///
/// What is out of reach, each thread can give back itself: [`thread_idle`].
pub fn purge() -> Result<()> {
    here()?.purge()
}

/// The most arenas that threads are spread over; `None` where the allocator sets no limit.
pub fn most_arenas() -> Result<Option<u32>> {
    here()?.most_arenas()
}

/// Binds the calling thread to an arena, from 0 up to [`most_arenas`]. jemalloc only.
pub fn bind_current_thread(arena: u32) -> Result<()> {
    here()?.bind_thread(arena)
}

/// Limits threads to the first few arenas of a running process.
///
/// jemalloc fixes the number of its arenas at start; what can be done later is to bind each thread. Call
/// [`join`](ArenaLimit::join) as the first thing in each thread (tokio: `on_thread_start`).
#[derive(Debug)]
pub struct ArenaLimit {
    arenas: u32,
    next: AtomicU32,
}

impl ArenaLimit {
    /// A limit to `arenas` arenas; 0 is taken as 1.
    pub const fn new(arenas: u32) -> Self {
        ArenaLimit { arenas: if arenas == 0 { 1 } else { arenas }, next: AtomicU32::new(0) }
    }

    /// Binds the calling thread to the next of the arenas, round-robin; which one.
    pub fn join(&self) -> Result<u32> {
        let arena = self.next.fetch_add(1, Ordering::Relaxed) % self.arenas;
        bind_current_thread(arena).map(|()| arena)
    }
}

/// Turns the calling thread's cache on or off; what it was. Turning it off flushes it. jemalloc only.
pub fn set_thread_cache(on: bool) -> Result<bool> {
    here()?.set_thread_cache(on)
}

/// Limits the blocks that the calling thread's cache holds to `bytes`, rounded up to a size class. jemalloc only.
pub fn set_thread_cache_max(bytes: usize) -> Result<()> {
    here()?.set_thread_cache_max(bytes)
}

/// Gives the blocks in the calling thread's cache back to their arenas. jemalloc only.
pub fn flush_thread_cache() -> Result<()> {
    here()?.flush_thread_cache()
}

/// Sets the time over which freed pages go back to the system, for arenas that live and for those to come. Zero is at
/// once, `None` never. jemalloc (both kinds) and mimalloc (dirty pages: its purge_delay).
///
/// Decay is driven by allocation: an idle process keeps what it has, whatever the time, unless
/// [background threads](set_background_threads) are on.
pub fn set_decay(pages: Pages, after: Option<Duration>) -> Result<()> {
    let millis = after.map_or(-1, |after| i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
    here()?.set_decay(pages, millis)
}

/// The time that [`set_decay`] sets, for arenas to come.
pub fn decay(pages: Pages) -> Result<Option<Duration>> {
    Ok(u64::try_from(here()?.decay(pages)?).ok().map(Duration::from_millis))
}

/// Turns threads on or off that purge on time even when the process is idle; what it was. jemalloc only.
pub fn set_background_threads(on: bool) -> Result<bool> {
    here()?.set_background_threads(on)
}

/// Whether all settings, those in code and those in the environment, exist, have a value that can be, and are in
/// force. Every one that does not is a line of [`Error::Settings`]; so is a CPU quota that a setting should follow and that
/// could not be read, where the affinity mask alone counts.
///
/// Allocates. With glibc it starts a process, glibc's loader: for the start of a program.
pub fn check() -> Result<()> {
    let allocator = here()?;
    let expected = crate::expected::expected(allocator);
    let mut problems = expected.unmet(&allocator.effective(&expected.settings));
    problems.extend(idle::problems(allocator));
    if problems.is_empty() { Ok(()) } else { Err(Error::Settings(problems)) }
}

/// The values of all settings in force now, by name: those since the start, and over them what was changed since by
/// [`set_decay`], [`set_background_threads`] or [`Ballast::keep`](crate::Ballast::keep).
///
/// Allocates. With glibc it starts a process, glibc's loader, which alone tells what the tunables are.
pub fn settings() -> Result<BTreeMap<String, String>> {
    let allocator = here()?;
    let mut settings = allocator.effective(&BTreeMap::new());
    settings.extend(allocator.changed());
    Ok(settings)
}

fn here() -> Result<&'static dyn Allocator> {
    installed().ok_or(Error::NotInstalled)
}
