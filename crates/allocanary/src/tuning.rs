//! Changes and reads the allocator that [`install!`](macro@crate::install) installed, while the program runs. A function with the same
//! effect has the same name for all three allocators. In: calls from any thread at any time. Out: the result, or an error with the reason.
//!
//! A call that the allocator cannot serve returns [`Error::Unsupported`]. A call that needs an allocator returns
//! [`Error::NotInstalled`] if the binary has no `install!`.
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

pub(crate) mod idle;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::allocator::Allocator;
use crate::budget;
use crate::install::{installation, installed};

pub use crate::allocator::Counters;
pub use crate::budget::Level;
pub use crate::error::{Error, Pages, Result};
pub use idle::{thread_idle, wait};

/// The name of the installed allocator: `jemalloc`, `mimalloc` or `system`.
pub fn allocator() -> Result<&'static str> {
    Ok(here()?.name())
}

/// The allocator's memory, summed over all threads.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes, and the number of arenas in use. A field is `None` if this allocator does not report it.
    pub counters: Counters,
    /// Fragmentation: bytes in pages with blocks, divided by bytes in blocks. 1 means no fragmentation. `None` if
    /// either number is unknown.
    pub fragmentation: Option<f64>,
}

/// Reads the allocator's own statistics. Costs microseconds. With glibc it locks each arena in turn.
///
/// Returns an error with a jemalloc that was built without statistics (this crate's feature `stats`).
pub fn statistics() -> Result<Statistics> {
    let allocator = here()?;
    allocator.counts()?;
    let counters = allocator.counters();
    Ok(Statistics { counters, fragmentation: counters.fragmentation() })
}

/// Returns freed memory to the system now: all that the calling thread can return.
///
/// - jemalloc: the calling thread's cache, and the freed pages of all arenas. The caches of other threads keep their
///   memory.
/// - mimalloc: the calling thread's free pages, and the free memory in the arenas. The heaps of other threads keep
///   their memory.
/// - glibc: the free pages within all arenas, and the top of the main arena and of the calling thread's arena. The tops
///   of other threads' arenas stay, and all thread caches stay: no call reaches them from another thread.
///
/// Each thread can return the rest itself: [`thread_idle`].
pub fn purge() -> Result<()> {
    here()?.purge()
}

/// The maximum number of arenas that threads are spread over; `None` if the allocator sets no limit.
///
/// With glibc the first call may start a process, glibc's loader.
pub fn most_arenas() -> Result<Option<u32>> {
    here()?.most_arenas()
}

/// Binds the calling thread to an arena. Arenas are numbered from 0; [`most_arenas`] is their number. jemalloc only.
pub fn bind_current_thread(arena: u32) -> Result<()> {
    here()?.bind_thread(arena)
}

/// Limits threads to the first N arenas in a running process.
///
/// jemalloc fixes its number of arenas at start. After that, each thread can be bound to an arena. Call
/// [`join`](ArenaLimit::join) first in each thread (tokio: `on_thread_start`).
#[derive(Debug)]
pub struct ArenaLimit {
    arenas: u32,
    next: AtomicU32,
}

impl ArenaLimit {
    /// A limit of `arenas` arenas; 0 counts as 1.
    pub const fn new(arenas: u32) -> Self {
        ArenaLimit { arenas: if arenas == 0 { 1 } else { arenas }, next: AtomicU32::new(0) }
    }

    /// Binds the calling thread to the next of the arenas, round-robin, and returns the number of that arena.
    pub fn join(&self) -> Result<u32> {
        let arena = self.next.fetch_add(1, Ordering::Relaxed) % self.arenas;
        bind_current_thread(arena).map(|()| arena)
    }
}

/// Turns the calling thread's cache on or off, and returns the previous value. Turning it off flushes the cache.
/// jemalloc only.
pub fn set_thread_cache(on: bool) -> Result<bool> {
    here()?.set_thread_cache(on)
}

/// Sets the largest block size that the calling thread's cache keeps, in bytes, rounded up to a size class. jemalloc
/// only.
pub fn set_thread_cache_max(bytes: usize) -> Result<()> {
    here()?.set_thread_cache_max(bytes)
}

/// Returns the blocks in the calling thread's cache to their arenas. jemalloc only.
pub fn flush_thread_cache() -> Result<()> {
    here()?.flush_thread_cache()
}

/// Sets the decay time, after which freed pages go back to the system, in existing arenas and in later ones. Zero means
/// at once, `None` means never. jemalloc (both kinds of pages) and mimalloc (dirty pages: its purge_delay).
///
/// Allocation drives decay. An idle process keeps its freed pages, whatever the time, unless [background
/// threads](set_background_threads) are on.
///
/// jemalloc shows an arena only when it is complete. An arena that another thread is making during this call may keep its previous
/// time. To be sure, set the time before threads start, or once more later.
pub fn set_decay(pages: Pages, after: Option<Duration>) -> Result<()> {
    let millis = after.map_or(-1, |after| i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
    here()?.set_decay(pages, millis)
}

/// The decay time of arenas that are made later, as set by [`set_decay`]; `None` means never.
pub fn decay(pages: Pages) -> Result<Option<Duration>> {
    Ok(u64::try_from(here()?.decay(pages)?).ok().map(Duration::from_millis))
}

/// Turns jemalloc's background threads on or off, and returns the previous value. While they are on, freed pages go
/// back to the system on time even if the process is idle. jemalloc only.
pub fn set_background_threads(on: bool) -> Result<bool> {
    here()?.set_background_threads(on)
}

/// Calls `callback` with each new level of the memory budget. The level is read after the allocator gave back what it keeps: at
/// [`Level::Last`] the program itself must free something. A later call of `on_pressure` replaces the function.
///
/// `callback` is called in a thread that allocates, before the allocation is made. So it must not wait for a lock that a thread
/// may hold while it allocates: let it set a flag, or use `try_lock`. It may allocate and free; what it allocates causes no further
/// call in this thread. It may be called in two threads at once. A panic ends at the allocation and is counted. `callback` may
/// replace itself. A level that is reached while a function is being replaced is lost: neither function is called for it.
///
/// ```no_run
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use allocanary::tuning::{self, Level};
///
/// allocanary::install!(jemalloc, memory_budget = container);
/// static SMALL: AtomicBool = AtomicBool::new(false);
///
/// fn main() {
///     tuning::on_pressure(|level| SMALL.store(level == Level::Last, Ordering::Relaxed)).unwrap();
/// }
/// ```
///
/// Returns [`Error::Unsupported`] in a program without a budget, or whose budget is `off`.
pub fn on_pressure(callback: impl Fn(Level) + Send + Sync + 'static) -> Result<()> {
    let allocator = here()?;
    if !budget::is_on() {
        let what =
            "no memory budget is on: write `memory_budget = container` in install!, and see ALLOCANARY_MEMORY_BUDGET";
        return Err(Error::Unsupported { allocator: allocator.name(), what });
    }
    budget::on_pressure(Box::new(callback));
    Ok(())
}

/// Checks that every setting of code and environment exists, has a valid value and is in force.
///
/// Returns [`Error::Settings`] with one line for each setting that fails. A line is also added if a setting follows the
/// CPU quota and the quota could not be read. The affinity mask alone is then used.
///
/// Allocates. With glibc it starts a process, glibc's loader. Call it at the start of a program.
pub fn check() -> Result<()> {
    let allocator = here()?;
    let expected = crate::expected::expected(allocator);
    let mut problems = expected.unmet(&allocator.effective(&expected.settings));
    problems.extend(idle::problems(allocator));
    problems.extend(budget::problems(installation().and_then(|installation| installation.budget)));
    #[cfg(feature = "profile")]
    if installation().is_some_and(|installation| installation.profile.is_some()) {
        problems.extend(crate::profile::problems());
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::Settings(problems)) }
}

/// The values of all settings in force now, by name: those from the start of the process, updated by [`set_decay`],
/// [`set_background_threads`] and [`Ballast::keep`](crate::Ballast::keep).
///
/// Allocates. With glibc it starts a process, glibc's loader: glibc has no other way to read its tunables.
pub fn settings() -> Result<BTreeMap<String, String>> {
    let allocator = here()?;
    let mut settings = allocator.effective(&BTreeMap::new());
    settings.extend(allocator.changed());
    Ok(settings)
}

fn here() -> Result<&'static dyn Allocator> {
    installed().ok_or(Error::NotInstalled)
}
