//! The calls of the malloc family. In: blocks. Out: events in the thread's chunk.
//!
//! malloc and free have a short path of few instructions. Rare or long parts are separate functions, so that the short path saves
//! few registers. For the same reason these functions return the block.

use std::ptr::null_mut;

use super::config;
use super::process::{self, Process, begin};
use super::real;
use super::thread::{Claimed, ENDED, QUIET, Thread, claim, claim_in, claim_slowly};
use super::tls;
use super::undisturbed::undisturbed;
use allocanary_trace::coder::{AllocFunction, Event};
use allocanary_trace::format::STAMP_TICKS;

/// Whether this block is recorded. With a `rate` above 1, only one block in `rate` is.
///
/// # Safety
///
/// The thread's own state.
#[inline(always)]
unsafe fn is_recorded(this: *mut Thread, address: u64) -> bool {
    // SAFETY: the caller's promise.
    let rate = u64::from(unsafe { (*this).rate });
    let hash = (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    rate <= 1 || hash >> 32 & 0xFFFF_FFFF < (1 << 32) / rate
}

/// Returns the claimed place if the block is recorded. Otherwise it releases the place.
#[inline(always)]
fn choose((this, at): Claimed, block: *mut u8) -> Option<Claimed> {
    // SAFETY: the thread's own state, whose place is claimed.
    unsafe {
        if !is_recorded(this, block.addr() as u64) || real::is_early(block.cast()) {
            Thread::release(this, at);
            return None;
        }
    }
    Some((this, at))
}

/// Whether a block is not recorded. If so, it also releases the thread's claim. If only one block in many is recorded, most calls end here.
fn is_let_go(this: *mut Thread, at: *mut u8, block: *mut u8) -> bool {
    // SAFETY: the thread's own state, which the caller has claimed if it exists.
    unsafe {
        let is_let_go = this > QUIET
            && Thread::is_ready(this, at)
            && !Thread::is_of_ended(this)
            && !is_recorded(this, block.addr() as u64);
        if is_let_go {
            Thread::release(this, at);
        }
        is_let_go
    }
}

/// Whether a thread without a state makes or frees a block of the look-up. This thread may be the one that looks up the allocator's
/// functions, and then it must not begin a trace.
fn is_of_look_up(this: *mut Thread, block: *mut u8) -> bool {
    this.is_null() && real::is_early(block.cast())
}

/// The block; null for one that was made while the allocator's functions were looked up.
#[inline(always)]
fn not_early(block: *mut u8) -> *mut u8 {
    if real::is_early(block.cast()) { null_mut() } else { block }
}

/// Records that malloc returned this block; does nothing for a null pointer. Returns the block, so that the caller need
/// not keep it.
#[inline(always)]
pub fn allocated(block: *mut u8, size: usize) -> *mut u8 {
    let this = tls::get::<Thread>();
    if this <= QUIET {
        return if this == QUIET { block } else { allocated_slowly(this, null_mut(), block, size) };
    }
    if block.is_null() {
        return block;
    }
    // SAFETY: the thread's own state; the short way has room for an event.
    unsafe {
        let at = Thread::claim(this);
        let passed = Thread::ticks(this);
        if at >= (*this).short_new || passed >= STAMP_TICKS {
            return allocated_slowly(this, at, block, size);
        }
        let coder = &raw mut (*this).coder;
        let passed = || Some(Thread::stamped(this, passed));
        match (*coder).put_near_malloc(at, block.addr() as u64, size as u64, process::is_multi, passed) {
            Some(cursor) => {
                Thread::wrote(this, cursor);
                block
            }
            None => allocated_far(this, at, block, size),
        }
    }
}

#[inline(never)]
fn allocated_far(this: *mut Thread, at: *mut u8, block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller has claimed the place.
    unsafe { Thread::put_block(this, at, AllocFunction::Malloc, block.addr() as u64, size) };
    block
}

/// Writes a block of malloc, after the event of its stack if it has one.
#[inline(never)]
fn allocated_with_stack(this: *mut Thread, at: *mut u8, block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller has claimed the place.
    unsafe {
        let at = Thread::put_stack(this, at, block.addr() as u64, size);
        let coder = &raw mut (*this).coder;
        let passed = || Thread::near_passed(this);
        match (*coder).put_near_malloc(at, block.addr() as u64, size as u64, process::is_multi, passed) {
            Some(cursor) => {
                Thread::wrote(this, cursor);
                block
            }
            None => allocated_far(this, at, block, size),
        }
    }
}

#[cold]
#[inline(never)]
fn allocated_slowly(this: *mut Thread, at: *mut u8, block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the thread's own state. If there is a state, its place is claimed.
    if this > QUIET && unsafe { Thread::has_stacks(this) && at < (*this).short && !Thread::is_stale(this) } {
        return allocated_with_stack(this, at, block, size);
    }
    if block.is_null() || is_of_look_up(this, block) || is_let_go(this, at, block) {
        return block;
    }
    match claim_slowly(this, at).and_then(|claimed| choose(claimed, block)) {
        Some((this, at)) => allocated_with_stack(this, at, block, size),
        None => block,
    }
}

/// Records that a function other than malloc returned this block; does nothing for a null pointer. Returns the block.
#[inline(never)]
pub fn allocated_by(how: AllocFunction, block: *mut u8, size: usize) -> *mut u8 {
    if !block.is_null()
        && !real::is_early(block.cast())
        && let Some((this, at)) = claim().and_then(|claimed| choose(claimed, block))
    {
        // SAFETY: the place is claimed.
        unsafe { Thread::put_new(this, at, how, block.addr() as u64, size) };
    }
    block
}

/// Records that this block is about to be freed. Does nothing for a null pointer. Returns the block that the allocator must free: null for
/// a block that was made while the allocator's functions were looked up.
#[inline(always)]
pub fn freed(block: *mut u8) -> *mut u8 {
    let this = tls::get::<Thread>();
    if this <= QUIET || block.is_null() {
        return if this == QUIET { not_early(block) } else { freed_slowly(this, null_mut(), block) };
    }
    // SAFETY: the thread's own state; the short way has room for an event.
    unsafe {
        let at = Thread::claim(this);
        let passed = Thread::ticks(this);
        if at >= (*this).short || passed >= STAMP_TICKS {
            return freed_slowly(this, at, block);
        }
        let coder = &raw mut (*this).coder;
        match (*coder).put_near_free(at, block.addr() as u64) {
            Some(cursor) => {
                Thread::wrote(this, cursor);
                block
            }
            None => freed_by_address(this, at, block, passed),
        }
    }
}

/// Writes a free by address. `passed` is the result of [`Thread::ticks`] for this call.
#[inline(never)]
fn freed_by_address(this: *mut Thread, at: *mut u8, block: *mut u8, passed: u64) -> *mut u8 {
    let address = block.addr() as u64;
    // SAFETY: the caller has claimed the place.
    unsafe {
        if real::is_early(block.cast()) {
            Thread::release(this, at);
            return null_mut();
        }
        let coder = &raw mut (*this).coder;
        Thread::stamped(this, passed);
        let cursor = match (*coder).put_near_free_stamped(at, address, passed) {
            Some(cursor) => cursor,
            None => (*coder).put_free(at, address, passed),
        };
        Thread::wrote(this, cursor);
    }
    block
}

#[cold]
#[inline(never)]
fn freed_slowly(this: *mut Thread, at: *mut u8, block: *mut u8) -> *mut u8 {
    if block.is_null() || is_of_look_up(this, block) {
        return null_mut();
    }
    if this == ENDED {
        if !real::is_early(block.cast()) {
            undisturbed(|| freed_late(block.addr() as u64));
        }
        return not_early(block);
    }
    if is_let_go(this, at, block) {
        return not_early(block);
    }
    let Some((this, at)) = claim_slowly(this, at).and_then(|claimed| choose(claimed, block)) else {
        return not_early(block);
    };
    // SAFETY: the place is claimed.
    unsafe {
        match (*this).coder.put_near_free(at, block.addr() as u64) {
            Some(cursor) => {
                Thread::wrote(this, cursor);
                block
            }
            None => freed_by_address(this, at, block, Thread::ticks(this)),
        }
    }
}

/// Records a free by a thread that has ended: the C library and later destructors of the thread may still free blocks. In the trace, all
/// such frees of a process belong to one additional thread. While another thread writes such a free, this thread tries a few times and does
/// not wait. Then the free is lost and counted.
fn freed_late(address: u64) {
    const TRIES: u32 = 1000;
    let Some(process) = begin::ready() else { return };
    let Some(this) = (0..TRIES).find_map(|_| process.claim_late(Thread::bytes(process))) else { return process.lose() };
    let this: *mut Thread = this.cast();
    // SAFETY: the state is this thread's until it is released.
    unsafe {
        if let Some((this, at)) = claim_in(this, process) {
            if is_recorded(this, address) {
                let passed = Thread::passed(this);
                Thread::wrote(this, (*this).coder.put_free(at, address, passed));
            } else {
                Thread::release(this, at);
            }
        }
    }
    process.release_late();
}

/// Records that a realloc is about to begin with this block, which is not null. Returns whether the realloc is
/// recorded; pass this to [`resized`].
pub fn resizing(block: *mut u8) -> bool {
    let Some((this, at)) = claim().and_then(|claimed| choose(claimed, block)) else { return false };
    let address = block.addr() as u64;
    // SAFETY: the place is claimed.
    unsafe {
        let passed = if (*this).coder.recent(address).is_some() { 0 } else { Thread::passed(this) };
        let (cursor, _) = (*this).coder.put_resize(at, address, passed);
        Thread::wrote(this, cursor);
    }
    true
}

/// Records that a realloc returned. `begun` is the result of [`resizing`].
pub fn resized(begun: bool, block: *mut u8, size: usize) {
    let Some((this, at)) = claim() else { return };
    // SAFETY: the place is claimed.
    unsafe {
        let is_chosen = !block.is_null() && is_recorded(this, block.addr() as u64);
        let other = match (begun, is_chosen) {
            (true, true) => return Thread::put_new(this, at, AllocFunction::Resized, block.addr() as u64, size),
            (false, true) => return Thread::put_new(this, at, AllocFunction::Malloc, block.addr() as u64, size),
            (false, false) => return Thread::release(this, at),
            (true, false) if block.is_null() && size > 0 => Event::ResizeFailed,
            (true, false) => Event::ResizeFreed,
        };
        let cursor = (*this).coder.put_other(at, other, 0);
        Thread::wrote(this, cursor);
    }
}

/// Writes a last reading of the memory of the process, which is about to exit, and marks the trace as complete.
pub fn exiting() {
    // If recording is off, a filter of system calls may be the reason. It may forbid the calls of `undisturbed`.
    if !config::is_off() {
        undisturbed(exit);
    }
}

fn exit() {
    let Some(process) = begin::ready() else { return };
    read_last(process);
    process.exit();
}

/// Reads the memory of the process for the last time.
pub(super) fn read_last(process: &Process) {
    if let Some((this, at)) = claim() {
        process.sample_soon();
        // SAFETY: the place is claimed, and has room for a stamp and a reading.
        unsafe {
            let cursor = Thread::put_stamp(this, at);
            Thread::release(this, cursor);
        }
    }
}
