//! One thread's state. In: events of its calls. Out: bytes in the thread's chunk.

mod end;

use std::ptr::null_mut;
#[cfg(not(target_arch = "x86_64"))]
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

use super::config;
use super::memory::page;
use super::process::{self, Process, begin};
use super::stacks::{self, Kept};
use super::tls::{self, ticks};
use super::undisturbed::undisturbed;
use allocanary_trace::coder::{AllocFunction, Coder, Event, NEAR_TICKS, is_short};
use allocanary_trace::format::{CHUNK_HEADER, Chunk, LONGEST_EVENT, STAMP_EVERY, STAMP_TICKS};
use allocanary_trace::predictor::is_chosen;

/// The length of a thread's first chunk in bytes, and how many times it is doubled for later chunks.
const FIRST_CHUNK: usize = 4096;
const DOUBLINGS: u32 = 3;

/// A thread's state, on pages that a fork wipes. If it is all zeros, the thread must first take a chunk.
#[repr(C)]
pub(super) struct Thread {
    /// The place of the next event. A call that writes adds [`BUSY`] to it. If a signal handler allocates during such a call, the
    /// allocation is not recorded.
    cursor: *mut u8,
    /// An event that begins before this place takes the short path. Null if a stamp is due, if only some blocks are recorded,
    /// or if there is no chunk.
    pub(super) short: *mut u8,
    /// Like `short`, for a new block of malloc. Also null if stacks are recorded.
    pub(super) short_new: *mut u8,
    /// The last place at which an event and a stamp may begin.
    end: *mut u8,
    /// The time of the last stamp, in ticks.
    stamp: u64,
    /// Events until the next stamp.
    left: u32,
    /// One block in this many is recorded.
    pub(super) rate: u32,
    /// The thread's number, and the number of its next chunk.
    number: u32,
    chunks: u32,
    /// How often the destructor of the key has run.
    ends: u32,
    /// The state of the process when this state was begun.
    process: *const Process,
    chunk: *mut u8,
    length: usize,
    /// The stack of one allocation in this many is recorded; 0 for none.
    stacks: u32,
    pub(super) coder: Coder,
    /// The state for stacks. It exists only if they are recorded.
    kept: Kept,
}

/// Marks a thread that has ended. Its later frees are recorded as those of another thread.
pub(super) const ENDED: *mut Thread = std::ptr::without_provenance_mut(1);
/// Marks a thread that must not record, because it is beginning its state or because nothing is recorded.
pub(super) const QUIET: *mut Thread = std::ptr::without_provenance_mut(2);

/// A bit above all addresses. Each signal handler that interrupts a claim adds it once more, until the handler returns.
const BUSY: usize = 1 << 58;

impl Thread {
    /// The bytes of one state, in whole pages.
    pub(super) fn bytes(process: &Process) -> usize {
        let without = std::mem::offset_of!(Thread, kept).next_multiple_of(page());
        // A recorder in a running process may record stacks in a later recording only.
        let may_have = process.one_in.load(SeqCst) > 0 || config::is_opened();
        if may_have { size_of::<Thread>().next_multiple_of(page()) } else { without }
    }

    /// Whether the state was begun for a recording that has ended.
    pub(super) unsafe fn is_of_ended(this: *mut Thread) -> bool {
        // SAFETY: the caller's state, on its own thread.
        let process = unsafe { (*this).process };
        !process.is_null() && process != process::current()
    }

    /// Begins the state again for the present recording, and returns what [`claim_slowly`] returns.
    unsafe fn renew(this: *mut Thread) -> Option<Claimed> {
        // SAFETY: the caller's state, on its own thread, of which it has the cursor. All zeros is the first state.
        unsafe {
            libc::madvise(this.cast(), Thread::bytes(&*(*this).process), libc::MADV_DONTNEED);
            let at = Thread::claim(this);
            claim_or_lose(this, at)
        }
    }

    /// Whether stacks are recorded.
    #[inline(always)]
    pub(super) unsafe fn has_stacks(this: *mut Thread) -> bool {
        // SAFETY: the caller's state, on its own thread.
        unsafe { (*this).stacks > 0 }
    }

    /// Until the next stamp, no event takes the short path.
    #[inline(always)]
    unsafe fn close_short_way(this: *mut Thread) {
        // SAFETY: as above.
        unsafe { ((*this).short, (*this).short_new) = (null_mut(), null_mut()) };
    }

    /// Begins an event: this call takes the cursor. Returns the cursor's previous value, which is [`BUSY`] or more if another call has the
    /// cursor. One instruction reads and writes, so that no signal handler can run in between. It needs no lock prefix, because other
    /// threads have their own cursors.
    #[inline(always)]
    pub(super) unsafe fn claim(this: *mut Thread) -> *mut u8 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's state, on its own thread.
        unsafe {
            let mut cursor = BUSY;
            core::arch::asm!(
                "xadd qword ptr [{this}], {cursor}",
                this = in(reg) &raw mut (*this).cursor, cursor = inout(reg) cursor, options(nostack),
            );
            std::ptr::with_exposed_provenance_mut(cursor)
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: as above.
        unsafe {
            let cursor = AtomicUsize::from_ptr((&raw mut (*this).cursor).cast()).fetch_add(BUSY, Relaxed);
            compiler_fence(SeqCst);
            std::ptr::with_exposed_provenance_mut(cursor)
        }
    }

    /// Whether a signal has interrupted a call that has the cursor. If so, returns the address and the length of its chunk. The address may
    /// be null.
    pub(super) unsafe fn interrupted(this: *mut Thread) -> Option<(usize, usize)> {
        // SAFETY: the caller's state, on its own thread.
        unsafe {
            let is_interrupted = (&raw const (*this).cursor).read_volatile().addr() >= BUSY;
            let length = if (*this).chunk.is_null() { 0 } else { (*this).length };
            is_interrupted.then(|| ((*this).chunk.addr(), length))
        }
    }

    /// Whether an event may begin at this claimed place.
    pub(super) unsafe fn is_ready(this: *mut Thread, at: *mut u8) -> bool {
        // SAFETY: the caller's state, on its own thread.
        unsafe { at < (*this).end && (*this).left > 0 }
    }

    /// Ends a call that has the cursor. `cursor` is the place of the next event.
    #[inline(always)]
    pub(super) unsafe fn release(this: *mut Thread, cursor: *mut u8) {
        compiler_fence(SeqCst);
        // SAFETY: the caller's state, on its own thread.
        unsafe { (&raw mut (*this).cursor).write_volatile(cursor) };
    }

    /// Ends an event, and counts it. If a stamp is due, the next event begins with it.
    #[inline(always)]
    pub(super) unsafe fn wrote(this: *mut Thread, cursor: *mut u8) {
        // SAFETY: as above.
        unsafe {
            // In the child of a fork the state may have been wiped during the call, so that this may wrap around.
            (*this).left = (*this).left.wrapping_sub(1);
            if (*this).left == 0 {
                Thread::close_short_way(this);
            }
            Thread::release(this, cursor);
        }
    }

    /// Ticks since the last stamp. The result is never below 0, although the counters of two cores may differ a little.
    #[inline(always)]
    pub(super) unsafe fn ticks(this: *mut Thread) -> u64 {
        // SAFETY: as above.
        ticks().saturating_sub(unsafe { (*this).stamp })
    }

    /// Whether the last stamp is too old for an event without a stamp. A thread that waits between events may take minutes for sixteen of
    /// them. With one stamp for all sixteen, a block that was freed at their end would count as freed at their beginning.
    #[inline(always)]
    pub(super) unsafe fn is_stale(this: *mut Thread) -> bool {
        // SAFETY: as above.
        unsafe { Thread::ticks(this) >= STAMP_TICKS }
    }

    /// Records that a stamp with these ticks is written, and returns the ticks.
    #[inline(always)]
    pub(super) unsafe fn stamped(this: *mut Thread, passed: u64) -> u64 {
        // SAFETY: as above.
        unsafe {
            (*this).stamp += passed;
            (*this).left = STAMP_EVERY;
        }
        passed
    }

    /// Makes the present time the last stamp, and returns the ticks since the previous one.
    pub(super) unsafe fn passed(this: *mut Thread) -> u64 {
        // SAFETY: as above.
        unsafe {
            let passed = Thread::ticks(this);
            Thread::stamped(this, passed)
        }
    }

    /// Like `passed`, but only if the number of ticks takes at most three bytes.
    #[inline(always)]
    pub(super) unsafe fn near_passed(this: *mut Thread) -> Option<u64> {
        // SAFETY: as above.
        unsafe {
            let passed = Thread::ticks(this);
            if passed >= NEAR_TICKS {
                return None;
            }
            Some(Thread::stamped(this, passed))
        }
    }

    /// Writes a new block of any function, and its stack.
    pub(super) unsafe fn put_new(this: *mut Thread, at: *mut u8, how: AllocFunction, address: u64, size: usize) {
        // SAFETY: as above.
        unsafe {
            let at = Thread::put_stack(this, at, address, size);
            Thread::put_block(this, at, how, address, size);
        }
    }

    /// Writes the event with the stack of a new block, if stacks are recorded and this stack was not predicted. Call it once for each
    /// block, as the reader does.
    #[inline(always)]
    pub(super) unsafe fn put_stack(this: *mut Thread, at: *mut u8, address: u64, size: usize) -> *mut u8 {
        // SAFETY: as above. A claimed place has room for four events of 40 bytes. This event has at most six bytes, and the
        // events before and after it at most 65.
        unsafe {
            if !Thread::has_stacks(this) || !is_chosen(address, (*this).stacks) {
                return at;
            }
            let (stack, is_foretold) = stacks::stack_of_here(&raw mut (*this).kept, size as u64);
            if is_foretold { at } else { (*this).coder.put_other(at, Event::Stack(stack), 0) }
        }
    }

    /// Writes a new block of any function. If its address may have been another thread's, a stamp is written before it.
    pub(super) unsafe fn put_block(this: *mut Thread, mut at: *mut u8, how: AllocFunction, address: u64, size: usize) {
        // SAFETY: as above; a claimed place has room for a stamp and an event.
        unsafe {
            let coder = &raw mut (*this).coder;
            if process::is_multi() && (*coder).recent(address).is_none() {
                let passed = Thread::passed(this);
                if how == AllocFunction::Malloc && is_short(size as u64) {
                    let cursor = (*coder).put_malloc_stamped(at, address, size as u64, passed);
                    return Thread::wrote(this, cursor);
                }
                at = (*coder).put_other(at, Event::Stamp, passed);
            }
            Thread::wrote(this, (*coder).put_new(at, how, address, size as u64));
        }
    }

    /// Writes a stamp, and the reading of memory if it is time.
    pub(super) unsafe fn put_stamp(this: *mut Thread, at: *mut u8) -> *mut u8 {
        // SAFETY: as above; the end leaves room for both after each event.
        unsafe {
            let passed = Thread::passed(this);
            let cursor = (*this).coder.put_other(at, Event::Stamp, passed);
            let now = (*this).stamp;
            if !begin::ready().is_some_and(|process| process.is_due(now)) {
                return cursor;
            }
            // Calls `ready` again: a signal handler may have forked, and the child has its own file.
            match undisturbed(|| begin::ready()?.sample(now)) {
                Some(kib) => (*this).coder.put_other(cursor, Event::Resident(kib), 0),
                None => cursor,
            }
        }
    }

    /// Takes the next chunk. Returns the place of its first event, or null if there is no chunk.
    unsafe fn refill(this: *mut Thread, process: &Process) -> *mut u8 {
        // SAFETY: as above; the chunk is this thread's alone.
        unsafe {
            if process.is_stopped() {
                return null_mut();
            }
            let first = (*this).chunks == 0;
            if !(*this).chunk.is_null() {
                if process.has_window() {
                    process.close_chunk((*this).chunk, ticks());
                }
                // The pages stay in the file. Only the mapping in this process loses them.
                let whole = !(page() - 1);
                libc::madvise(
                    (*this).chunk.map_addr(|at| at & whole).cast(),
                    (*this).length & whole,
                    libc::MADV_DONTNEED,
                );
            }
            // The thread has given up its old chunk, even if there is no other chunk for it now.
            ((*this).chunk, (*this).end) = (null_mut(), null_mut());
            Thread::close_short_way(this);
            let wanted = match process.has_window() {
                true => {
                    let rest = if first { process.ring_rest() } else { None };
                    rest.or_else(|| process.ring_chunk(ticks()))
                }
                false => process.chunk(FIRST_CHUNK << (*this).chunks.min(DOUBLINGS), first),
            };
            let Some((offset, start, length)) = wanted else {
                if !process.is_stopped() {
                    process.lose_without_chunk();
                }
                return null_mut();
            };
            if process.has_window() {
                // A reader reads each chunk of a window by itself, so the recorder's state begins again.
                (&raw mut (*this).coder).write_bytes(0, 1);
                if Thread::has_stacks(this) {
                    stacks::begin_chunk(&raw mut (*this).kept);
                }
            }
            if first {
                ((*this).number, (*this).chunks) = (process.number_thread(), 0);
                (*this).process = process;
                (*this).rate = process.rate.load(SeqCst);
                (*this).stacks = process.one_in.load(SeqCst);
            }
            (*this).stamp = (*this).stamp.max(ticks());
            let (thread, number) = ((*this).number, (*this).chunks);
            let header = Chunk { offset, length: length as u32, thread, number, stamp: (*this).stamp, closed: 0 };
            header.write(std::slice::from_raw_parts_mut(start, CHUNK_HEADER));
            ((*this).chunk, (*this).length) = (start, length);
            (*this).chunks += 1;
            (*this).left = STAMP_EVERY;
            (*this).end = start.add(length - 4 * LONGEST_EVENT);
            let cursor = start.add(CHUNK_HEADER);
            // If each event of a thread has its own stamp, the thread reads the memory of the process only here.
            match process.sample((*this).stamp) {
                Some(kib) => (*this).coder.put_other(cursor, Event::Resident(kib), 0),
                None => cursor,
            }
        }
    }
}

/// A thread's state, and the place of an event. The caller owns the place until [`Thread::release`].
pub(super) type Claimed = (*mut Thread, *mut u8);

/// Handles a call that cannot take the short path. `at` is the result of [`Thread::claim`]. Begins the process's file or the thread's
/// state, takes the next chunk, or writes a stamp. `None` if the call is not recorded.
#[cold]
#[inline(never)]
pub(super) fn claim_slowly(this: *mut Thread, at: *mut u8) -> Option<Claimed> {
    // SAFETY: the thread's own state, of which the caller has the cursor, if no other call has it.
    unsafe {
        if this == QUIET || this == ENDED {
            return None;
        }
        if this.is_null() && config::is_waiting() {
            return None;
        }
        if this > QUIET && at.addr() < BUSY && Thread::is_of_ended(this) {
            if process::current().is_null() {
                Thread::release(this, at);
                return None;
            }
            return undisturbed(|| Thread::renew(this));
        }
        if this.is_null() || at.addr() >= BUSY {
            return undisturbed(|| claim_or_lose(this, at));
        }
        if at < (*this).end {
            return Some(stamped_if_due(this, at));
        }
        if begin::ready().is_some_and(Process::is_stopped) {
            // Nothing is recorded from now on. But the end of the thread is written to its last chunk.
            Thread::close_short_way(this);
            Thread::release(this, at);
            return None;
        }
        undisturbed(|| claim_or_lose(this, at))
    }
}

/// The place of an event in a state that belongs to no thread. The caller owns the place until it releases it. `None` if there is no chunk.
pub(super) unsafe fn claim_in(this: *mut Thread, process: &Process) -> Option<Claimed> {
    // SAFETY: the caller's promise.
    unsafe {
        let at = if (*this).cursor < (*this).end { (*this).cursor } else { Thread::refill(this, process) };
        (!at.is_null()).then(|| stamped_if_due(this, at))
    }
}

/// Returns the claimed place. If a stamp is due, the stamp is written first, and the place is after it.
unsafe fn stamped_if_due(this: *mut Thread, mut at: *mut u8) -> Claimed {
    // SAFETY: as above.
    unsafe {
        if (*this).left == 0 || Thread::is_stale(this) {
            at = Thread::put_stamp(this, at);
        }
        if (*this).rate <= 1 {
            (*this).short = (*this).end;
            (*this).short_new = if Thread::has_stacks(this) { null_mut() } else { (*this).end };
        }
        (this, at)
    }
}

/// This thread's state, which is begun here, unless a signal handler has begun it during this call. `None` if the thread must not record.
fn begin_thread() -> Option<*mut Thread> {
    let this = tls::get::<Thread>();
    if !this.is_null() {
        return (this > QUIET).then_some(this);
    }
    tls::set(QUIET);
    let made: *mut Thread =
        begin::ready().map_or(null_mut(), |process| process.make_thread(Thread::bytes(process))).cast();
    if made.is_null() {
        // Recording is off for good, or another thread is beginning the file.
        tls::set::<Thread>(if config::is_off() { QUIET } else { null_mut() });
        return None;
    }
    end::watch_end(made);
    tls::set(made);
    Some(made)
}

/// Handles a call without a state or a chunk, or whose cursor another call has.
fn claim_or_lose(mut this: *mut Thread, mut at: *mut u8) -> Option<Claimed> {
    // SAFETY: the thread's own state, of which the caller has the cursor, if no other call has it.
    unsafe {
        if this.is_null() {
            this = begin_thread()?;
            at = Thread::claim(this);
        }
        if at.addr() >= BUSY {
            // A signal handler makes this call, and has interrupted the call that has the cursor. That call continues afterwards.
            (&raw mut (*this).cursor).write_volatile(at);
            begin::ready().into_iter().for_each(Process::lose);
            return None;
        }
        if at >= (*this).end {
            if this != tls::get::<Thread>() {
                // This is the child of a fork, and it has a new state. The interrupted call is not recorded.
                Thread::release(this, at);
                return None;
            }
            let process = begin::ready();
            let next = process.map_or(null_mut(), |process| Thread::refill(this, process));
            if next.is_null() {
                Thread::close_short_way(this);
                Thread::release(this, if (*this).chunk.is_null() { null_mut() } else { at });
                if process.is_none() && config::is_off() {
                    // This is the child of a fork, and it cannot make its own file.
                    tls::set(QUIET);
                }
                return None;
            }
            at = next;
        }
        Some(stamped_if_due(this, at))
    }
}

/// The thread's state and the place of an event. `None` if the call is not recorded.
pub(super) fn claim() -> Option<Claimed> {
    let this = tls::get::<Thread>();
    if this <= QUIET {
        return claim_slowly(this, null_mut());
    }
    // SAFETY: the thread's own state.
    let (at, is_short) = unsafe {
        let at = Thread::claim(this);
        (at, at < (*this).short && !Thread::is_stale(this))
    };
    if is_short { Some((this, at)) } else { claim_slowly(this, at) }
}
