//! Keeps freed memory by a purge delay that is longer than the guard lives. In: the present delay. Out: the same delay, restored.

use super::{Mimalloc, option_number, sys};
use crate::allocator::{Allocator, Cannot, Keeping};
use crate::error::{Pages, Result};

/// 24 days. Not -1 (never): mimalloc does not record pages that are freed under -1, so no later purge finds them.
const KEPT_MILLIS: i64 = i32::MAX as i64;

/// From now on, no freed memory becomes due for purging.
#[inline]
pub fn keep(allocator: &Mimalloc) -> Result<Keeping> {
    let before = allocator.decay(Pages::Dirty)?;
    // SAFETY: the number is one that mimalloc has just listed.
    let times = option_number("arena_purge_mult").map(|(number, _)| unsafe { sys::mi_option_get(number) });
    if times == Some(0) {
        return allocator.cannot("arena_purge_mult is 0, so that arenas purge at once whatever the delay");
    }
    if before >= 0 {
        allocator.set_decay(Pages::Dirty, KEPT_MILLIS)?;
    }
    Ok(Keeping { at_most: None, lost: None, before: vec![(0, before)] })
}

/// Gives the kept memory back, and restores the delay. Does nothing if the delay was -1: then mimalloc kept all memory
/// before, too.
#[inline]
pub fn stop(allocator: &Mimalloc, keeping: &Keeping) {
    for (_, before) in keeping.before.iter().filter(|(_, before)| *before >= 0) {
        // The purge comes first. The memory that was freed since `keep` is due only in 24 days, and under a delay of 0 not even a
        // forced collection looks for memory that is due (mi_arenas_try_purge).
        let _ = allocator.purge(); // mimalloc's purge cannot fail
        let _ = allocator.set_decay(Pages::Dirty, *before); // the option was there when `keep` set it
    }
}
