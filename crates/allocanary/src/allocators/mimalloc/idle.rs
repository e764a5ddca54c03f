//! What a thread returns before it waits: its heap's free pages go to the arenas, and the arenas' free pages to the
//! system.

use std::time::Duration;

use super::sys;
use crate::idle::{IdleThread, Turns};

static PURGES: Turns = Turns::new();

/// Collects the thread's heap and purges the arenas, if that is due.
///
/// The collection is forced. Without force the thread would keep pages that were just emptied, and purges would wait
/// for their delay, which never ends in an idle process.
#[inline]
pub fn give_back(thread: &IdleThread, every: Duration) -> bool {
    if !thread.is_due(every, None) {
        return false;
    }
    // SAFETY: callable from any thread at any time. In a thread that has never allocated, it has no heap to collect and
    // does nothing.
    let collect = || unsafe { sys::mi_collect(true) };
    collect();
    // mimalloc purges for one thread at a time, and skips the purges of the others. The pages that the others freed
    // would stay, so the purging thread purges once more.
    PURGES.take(collect);
    true
}
