//! What threads allocate, by jemalloc's own count. In: a function. Out: calls of it, in the thread that allocates.
//!
//! jemalloc compares each thread's count with the next event's anyway, so this adds nothing to an allocation. The key is
//! `experimental`: where it is missing, the error says so.

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

/// The function, `fn(u64)`.
static CALL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// What this thread had allocated at its last event.
    static BEFORE: Cell<u64> = const { Cell::new(0) };
}

/// An event of a thread. jemalloc holds none of its locks, and what is allocated here makes no further event.
extern "C" fn event(_is_alloc: bool, allocated: u64, _freed: u64) {
    let call = CALL.load(Ordering::Acquire);
    if !call.is_null() {
        // SAFETY: the function that `tell` has stored.
        let call: fn(u64) = unsafe { std::mem::transmute(call) };
        call(allocated.wrapping_sub(BEFORE.replace(allocated)));
    }
}

/// Calls `call` after each `every` bytes of a thread.
#[inline]
pub fn tell(every: u64, call: fn(u64)) -> Result<()> {
    CALL.store(call as *mut (), Ordering::Release);
    let hook = Hook { callback: event, interval: every, is_alloc_only: true };
    // SAFETY: the key takes this structure, and copies it.
    unsafe { raw::write(b"experimental.hooks.thread_event\0", hook) }.map_err(refused("telling what threads allocate"))
}
