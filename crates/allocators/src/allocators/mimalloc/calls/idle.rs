//! A thread that is about to wait. In: time. Out: its heap's free pages go to the arenas, and the arenas' free pages to
//! the system.

use std::time::Duration;

use super::sys;
use crate::idle::{Thread, Turns};

static PURGES: Turns = Turns::new();

/// Collects the thread's heap and purges the arenas, if that is due.
///
/// With force: otherwise pages that were just emptied stay with the thread, and purges wait for their delay, which in
/// an idle process never ends.
#[inline]
pub fn give_back(thread: &Thread, every: Duration) -> bool {
    if !thread.is_due(every, None) {
        return false;
    }
    // SAFETY: callable from any thread at any time; one that has never allocated has no heap, and nothing is done.
    let collect = || unsafe { sys::mi_collect(true) };
    collect();
    // mimalloc purges for one thread at a time, and skips the purge of the others. The pages that they freed by then
    // would stay, so the purging thread does it again.
    PURGES.take(collect);
    true
}
