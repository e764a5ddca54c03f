//! Calls a function each time a thread has allocated a number of bytes, by jemalloc's own count of each thread.
//!
//! jemalloc compares this count with that of the next event anyway, so an allocation costs nothing more. The key is experimental: if a
//! jemalloc does not have it, the error says so.

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, Ordering};

use tikv_jemalloc_ctl::raw;

use super::refused;
use crate::error::Result;

/// `user_hook_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Hook {
    callback: extern "C" fn(bool, u64, u64),
    interval: u64,
    is_alloc_only: bool,
}

/// The function that [`event`] calls, a `fn(u64, u64)`; null before [`tell`].
static CALL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// What this thread had allocated and freed at its last event.
    static BEFORE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// jemalloc calls this function at an event of a thread. jemalloc then holds none of its locks. What this function allocates causes no
/// further event.
extern "C" fn event(_is_alloc: bool, allocated: u64, freed: u64) {
    let call = CALL.load(Ordering::Acquire);
    if !call.is_null() {
        // SAFETY: the function that `tell` has stored.
        let call: fn(u64, u64) = unsafe { std::mem::transmute(call) };
        let now = (allocated, freed);
        let (bytes, more) = between(BEFORE.replace(now), now);
        call(bytes, more);
    }
}

/// The bytes that were allocated between two events, and how many of them exceed the bytes freed in the same time. When `realloc`
/// moves a block, it frees the old block after the event of the new one. Until then both blocks are in use.
fn between(before: (u64, u64), now: (u64, u64)) -> (u64, u64) {
    let bytes = now.0.wrapping_sub(before.0);
    (bytes, bytes.saturating_sub(now.1.wrapping_sub(before.1)))
}

/// Makes jemalloc call `call` in each thread after the thread has allocated `every` more bytes.
#[inline]
pub fn tell(every: u64, call: fn(u64, u64)) -> Result<()> {
    CALL.store(call as *mut (), Ordering::Release);
    let hook = Hook { callback: event, interval: every, is_alloc_only: true };
    // SAFETY: the key takes this structure, and copies it.
    unsafe { raw::write(b"experimental.hooks.thread_event\0", hook) }.map_err(refused("telling what threads allocate"))
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn what_was_freed_meanwhile_is_not_more() {
        let cases = [((0, 0), (9, 2)), ((100, 90), (400, 290)), ((5, 0), (8, 7)), ((u64::MAX, u64::MAX), (9, 3))];
        assert_eq!(cases.map(|(before, now)| between(before, now)), [(9, 7), (300, 100), (3, 0), (10, 6)]);
    }
}
