//! A thread that is about to wait. In: time. Out: its heap's free pages are the arenas', and the arenas' are the system's.

use std::time::Duration;

use super::sys;
use crate::idle::{Thread, Turns};

static PURGES: Turns = Turns::new();

/// Collects the thread's heap and purges the arenas, if that is due.
///
/// By force: without it pages that were just emptied stay with the thread, and purges wait for their delay, which in an idle
/// process never ends.
#[inline]
pub fn give_back(thread: &Thread, every: Duration) -> bool {
    if !thread.is_due(every, None) {
        return false;
    }
    // SAFETY: callable from any thread at any time; one that has never allocated has no heap, and nothing is done.
    let collect = || unsafe { sys::mi_collect(true) };
    collect();
    // mimalloc purges for one thread at a time, and passes over the purge of the others. What they have freed by then would
    // stay, so whoever was at it does it again.
    PURGES.take(collect);
    true
}
