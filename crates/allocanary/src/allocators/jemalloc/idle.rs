//! What a thread returns before it waits. In: the thread's own counters. Out: an empty thread cache or none, and a purged arena.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tikv_jemalloc_ctl::raw;

use super::{ALL_ARENAS, refused, void_ctl};
use crate::error::Result;
use crate::idle::{IdleThread, Turns, Uncached};

/// One thread at a time purges an arena. Threads that share the arena do not wait for each other.
static PURGES: [Turns; ALL_ARENAS] = [const { Turns::new() }; ALL_ARENAS];

/// Flushes the thread's cache and purges its arena, if that is due.
#[inline]
pub fn give_back(thread: &IdleThread, every: Duration) -> Result<bool> {
    if !thread.is_due(every, thread.bytes(counters)) {
        return Ok(false);
    }
    void_ctl(c"thread.tcache.flush"); // EFAULT if the thread has no cache: then there is nothing to flush
    // SAFETY: `thread.arena` is an `unsigned`.
    let arena = unsafe { raw::read::<u32>(b"thread.arena\0") }.map_err(refused("reading thread.arena"))? as usize;
    purge(arena)?;
    Ok(true)
}

/// Ends the thread's cache until the result is dropped. jemalloc takes the cache's structures from its first arena,
/// whichever arena the thread uses.
#[inline]
pub fn uncached() -> Uncached {
    const CACHE: &[u8] = b"thread.tcache.enabled\0";
    // SAFETY: the key is a `bool`.
    match unsafe { raw::update(CACHE, false) } {
        Ok(true) => {
            let _ = purge(0); // if the purge fails, the memory goes back by decay
            Uncached::until(|| {
                // SAFETY: as above.
                let _ = unsafe { raw::write(CACHE, true) };
            })
        }
        // The thread had no cache: the user has turned it off.
        _ => Uncached::NOTHING,
    }
}

#[inline]
fn purge(arena: usize) -> Result<()> {
    let mut purge = [0_usize; 3];
    raw::name_to_mib(b"arena.0.purge\0", &mut purge).map_err(refused("purging an arena"))?;
    purge[1] = arena;
    if let Some(turns) = PURGES.get(arena) {
        turns.take(|| {
            // SAFETY: a void mallctl reads and writes nothing through the null pointers; the name's parts are three.
            unsafe {
                tikv_jemalloc_sys::mallctlbymib(purge.as_ptr(), 3, null_mut(), null_mut(), null_mut::<c_void>(), 0)
            };
        });
    }
    Ok(())
}

/// jemalloc's counters of what this thread has allocated and freed.
#[inline]
fn counters() -> Option<[&'static AtomicU64; 2]> {
    let find = |name: &[u8]| {
        // SAFETY: both keys are a `uint64_t *`.
        let counter = unsafe { raw::read::<*mut u64>(name) }.ok().filter(|counter| !counter.is_null())?;
        // SAFETY: within the thread's own storage, which lasts as long as the thread. Only this thread reads through it, and only
        // jemalloc in this thread writes it.
        Some(unsafe { AtomicU64::from_ptr(counter) })
    };
    Some([find(b"thread.allocatedp\0")?, find(b"thread.deallocatedp\0")?])
}
