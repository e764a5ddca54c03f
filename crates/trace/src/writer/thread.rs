//! One thread's state. In: events of its calls. Out: bytes in the thread's chunk.

use std::ptr::null_mut;
#[cfg(not(target_arch = "x86_64"))]
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

use super::config;
use super::process::{self, KEY, Process, begin};
use super::stacks::{self, Kept};
use super::tls::{self, ticks};
use super::undisturbed::undisturbed;
use crate::coder::{Coder, Event, How, NEAR_TICKS, is_short};
use crate::format::{CHUNK_ALIGN, CHUNK_HEADER, Chunk, LONGEST_EVENT, STAMP_EVERY, STAMP_TICKS};
use crate::predictor::is_chosen;

/// A thread's first chunk, and how often the next one doubles.
const FIRST_CHUNK: usize = 4096;
const DOUBLINGS: u32 = 3;

/// A thread's state, on pages that a fork wipes: all zeros means that a chunk must be taken first.
#[repr(C)]
pub(super) struct Thread {
    /// Where the next event goes. A call that writes adds [`BUSY`]: a signal handler that allocates meanwhile is not recorded.
    cursor: *mut u8,
    /// An event that begins before this place goes the short way. Null if a stamp is due, if only some blocks are recorded, and
    /// where there is no chunk.
    pub(super) short: *mut u8,
    /// The same for a new block of malloc: null also where stacks are recorded.
    pub(super) short_new: *mut u8,
    /// The last place at which an event and a stamp may begin.
    end: *mut u8,
    /// Ticks of the last stamp.
    stamp: u64,
    /// Events until the next stamp.
    left: u32,
    /// One block in this many is recorded.
    pub(super) rate: u32,
    /// The thread's number, and that of its next chunk.
    number: u32,
    chunks: u32,
    /// How often the destructor of the key has run.
    ends: u32,
    /// The chunk.
    chunk: *mut u8,
    length: usize,
    /// The stack of one allocation in this many is recorded; 0 for none.
    stacks: u32,
    pub(super) coder: Coder,
    /// What stacks need; only there with them.
    kept: Kept,
}

/// Marks a thread that has ended: what it still frees is recorded as that of another one.
pub(super) const ENDED: *mut Thread = std::ptr::without_provenance_mut(1);
/// Marks a thread that must not record: it begins its state, or nothing is recorded.
pub(super) const QUIET: *mut Thread = std::ptr::without_provenance_mut(2);

/// A bit above all addresses. Each handler of a signal that interrupts a claim adds one more until it returns.
const BUSY: usize = 1 << 58;

impl Thread {
    /// The bytes of one state, in whole pages.
    pub(super) fn bytes(process: &Process) -> usize {
        let without = std::mem::offset_of!(Thread, kept).next_multiple_of(4096);
        if process.one_in.load(SeqCst) > 0 { size_of::<Thread>().next_multiple_of(4096) } else { without }
    }

    /// Whether stacks are recorded.
    #[inline(always)]
    pub(super) unsafe fn has_stacks(this: *mut Thread) -> bool {
        // SAFETY: the caller's state, on its own thread.
        unsafe { (*this).stacks > 0 }
    }

    /// No event goes the short way until the next stamp.
    #[inline(always)]
    unsafe fn close_short_way(this: *mut Thread) {
        // SAFETY: as above.
        unsafe { ((*this).short, (*this).short_new) = (null_mut(), null_mut()) };
    }

    /// Begins an event: the cursor is this call's. Returns what it was: [`BUSY`] and more if another call has it. One
    /// instruction reads and writes, so that no signal handler comes between; it needs no lock, other threads have cursors of
    /// their own.
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

    /// The address and the length of the chunk, of which there may be none, if a call that a signal has interrupted has the
    /// cursor.
    pub(super) unsafe fn interrupted(this: *mut Thread) -> Option<(usize, usize)> {
        // SAFETY: the caller's state, on its own thread.
        unsafe {
            let is_interrupted = (&raw const (*this).cursor).read_volatile().addr() >= BUSY;
            let length = if (*this).chunk.is_null() { 0 } else { (*this).length };
            is_interrupted.then(|| ((*this).chunk.addr(), length))
        }
    }

    /// Whether an event may begin at this place, which was claimed.
    pub(super) unsafe fn is_ready(this: *mut Thread, at: *mut u8) -> bool {
        // SAFETY: the caller's state, on its own thread.
        unsafe { at < (*this).end && (*this).left > 0 }
    }

    /// Ends a call that has the cursor: the next event goes there.
    #[inline(always)]
    pub(super) unsafe fn release(this: *mut Thread, cursor: *mut u8) {
        compiler_fence(SeqCst);
        // SAFETY: the caller's state, on its own thread.
        unsafe { (&raw mut (*this).cursor).write_volatile(cursor) };
    }

    /// The rest of an event: counts it. The next one begins with a stamp if it is time.
    #[inline(always)]
    pub(super) unsafe fn wrote(this: *mut Thread, cursor: *mut u8) {
        // SAFETY: as above.
        unsafe {
            // In the child of a fork the state was wiped meanwhile.
            (*this).left = (*this).left.wrapping_sub(1);
            if (*this).left == 0 {
                Thread::close_short_way(this);
            }
            Thread::release(this, cursor);
        }
    }

    /// Ticks since the last stamp. The counters of two cores may differ a little: time never goes back.
    #[inline(always)]
    pub(super) unsafe fn ticks(this: *mut Thread) -> u64 {
        // SAFETY: as above.
        ticks().saturating_sub(unsafe { (*this).stamp })
    }

    /// Whether the last stamp is too long ago for an event without one. Sixteen events of a thread that waits between them may take
    /// minutes: with one stamp for all of them a block that was freed at the end counted as freed at the begin.
    #[inline(always)]
    pub(super) unsafe fn is_stale(this: *mut Thread) -> bool {
        // SAFETY: as above.
        unsafe { Thread::ticks(this) >= STAMP_TICKS }
    }

    /// A stamp is written with these ticks, which are returned.
    #[inline(always)]
    pub(super) unsafe fn stamped(this: *mut Thread, passed: u64) -> u64 {
        // SAFETY: as above.
        unsafe {
            (*this).stamp += passed;
            (*this).left = STAMP_EVERY;
        }
        passed
    }

    /// Ticks since the last stamp, which is now.
    pub(super) unsafe fn passed(this: *mut Thread) -> u64 {
        // SAFETY: as above.
        unsafe {
            let passed = Thread::ticks(this);
            Thread::stamped(this, passed)
        }
    }

    /// The same if it takes at most three bytes.
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
    pub(super) unsafe fn put_new(this: *mut Thread, at: *mut u8, how: How, address: u64, size: usize) {
        // SAFETY: as above.
        unsafe {
            let at = Thread::put_stack(this, at, address, size);
            Thread::put_block(this, at, how, address, size);
        }
    }

    /// Before a new block: the event that says its stack, where stacks are recorded and this one was not to be expected. Once for each
    /// block: the reader does the same.
    #[inline(always)]
    pub(super) unsafe fn put_stack(this: *mut Thread, at: *mut u8, address: u64, size: usize) -> *mut u8 {
        // SAFETY: as above. A claimed place has room for four events of 40 bytes: this one has at most six, and what may stand
        // before and behind it at most 65.
        unsafe {
            if !Thread::has_stacks(this) || !is_chosen(address, (*this).stacks) {
                return at;
            }
            let (stack, is_foretold) = stacks::stack_of_here(&raw mut (*this).kept, size as u64);
            if is_foretold { at } else { (*this).coder.put_other(at, Event::Stack(stack), 0) }
        }
    }

    /// Writes a new block of any function; before it a stamp, where its address may have been another thread's.
    pub(super) unsafe fn put_block(this: *mut Thread, mut at: *mut u8, how: How, address: u64, size: usize) {
        // SAFETY: as above; a claimed place has room for a stamp and an event.
        unsafe {
            let coder = &raw mut (*this).coder;
            if process::is_multi() && (*coder).recent(address).is_none() {
                let passed = Thread::passed(this);
                if how == How::Malloc && is_short(size as u64) {
                    let cursor = (*coder).put_malloc_stamped(at, address, size as u64, passed);
                    return Thread::wrote(this, cursor);
                }
                at = (*coder).put_other(at, Event::Stamp, passed);
            }
            Thread::wrote(this, (*coder).put_new(at, how, address, size as u64));
        }
    }

    /// Writes a stamp, and what is read when it is time.
    pub(super) unsafe fn put_stamp(this: *mut Thread, at: *mut u8) -> *mut u8 {
        // SAFETY: as above; the end leaves room for both behind each event.
        unsafe {
            let passed = Thread::passed(this);
            let cursor = (*this).coder.put_other(at, Event::Stamp, passed);
            let now = (*this).stamp;
            if !begin::ready().is_some_and(|process| process.is_due(now)) {
                return cursor;
            }
            // Asked again: a handler of a signal may have forked, and the child has a file of its own.
            match undisturbed(|| begin::ready()?.sample(now)) {
                Some(kib) => (*this).coder.put_other(cursor, Event::Resident(kib), 0),
                None => cursor,
            }
        }
    }

    /// Takes the next chunk, and returns the place of its first event; null where there is none.
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
                // The pages stay in the file; only this process's view of them goes.
                libc::madvise(
                    (*this).chunk.map_addr(|at| at & !4095).cast(),
                    (*this).length & !4095,
                    libc::MADV_DONTNEED,
                );
            }
            // No longer this thread's, even where there is no other for it now.
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
                // Each chunk is read by itself.
                (&raw mut (*this).coder).write_bytes(0, 1);
                if Thread::has_stacks(this) {
                    stacks::begin_chunk(&raw mut (*this).kept);
                }
            }
            if first {
                ((*this).number, (*this).chunks) = (process.number_thread(), 0);
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
            // A thread whose events bring their own stamps comes to no other place that reads memory.
            match process.sample((*this).stamp) {
                Some(kib) => (*this).coder.put_other(cursor, Event::Resident(kib), 0),
                None => cursor,
            }
        }
    }
}

/// A thread's state, and the place of an event, which is the caller's until [`Thread::release`].
pub(super) type Claimed = (*mut Thread, *mut u8);

/// A call that the short way does not take, with what [`Thread::claim`] returned: begins the process's file or the thread's state,
/// takes the next chunk, or stamps. None where the call is not recorded.
#[cold]
#[inline(never)]
pub(super) fn claim_slowly(this: *mut Thread, at: *mut u8) -> Option<Claimed> {
    // SAFETY: the thread's own state, of which the caller has the cursor, if no other call has it.
    unsafe {
        if this == QUIET || this == ENDED {
            return None;
        }
        if this.is_null() || at.addr() >= BUSY {
            return undisturbed(|| claim_or_lose(this, at));
        }
        if at < (*this).end {
            return Some(stamped_if_due(this, at));
        }
        if begin::ready().is_some_and(Process::is_stopped) {
            // For good. The end of the thread is still written to its last chunk.
            Thread::close_short_way(this);
            Thread::release(this, at);
            return None;
        }
        undisturbed(|| claim_or_lose(this, at))
    }
}

/// The place of an event in a state that no thread has as its own, and that is the caller's until then. None where there is no chunk.
pub(super) unsafe fn claim_in(this: *mut Thread, process: &Process) -> Option<Claimed> {
    // SAFETY: the caller's promise.
    unsafe {
        let at = if (*this).cursor < (*this).end { (*this).cursor } else { Thread::refill(this, process) };
        (!at.is_null()).then(|| stamped_if_due(this, at))
    }
}

/// A claimed place, behind a stamp if one is due.
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

/// This thread's state, which is begun here if a handler of a signal has not done so meanwhile. None where it must not record.
fn begin_thread() -> Option<*mut Thread> {
    let this = tls::get::<Thread>();
    if !this.is_null() {
        return (this > QUIET).then_some(this);
    }
    tls::set(QUIET);
    let made: *mut Thread =
        begin::ready().map_or(null_mut(), |process| process.make_thread(Thread::bytes(process))).cast();
    if made.is_null() {
        // Off for good, or only while another thread begins the file.
        tls::set::<Thread>(if config::is_off() { QUIET } else { null_mut() });
        return None;
    }
    watch_end(made);
    tls::set(made);
    Some(made)
}

/// The way of all calls that have no state, no chunk, or whose cursor another call has.
fn claim_or_lose(mut this: *mut Thread, mut at: *mut u8) -> Option<Claimed> {
    // SAFETY: the thread's own state, of which the caller has the cursor, if no other call has it.
    unsafe {
        if this.is_null() {
            this = begin_thread()?;
            at = Thread::claim(this);
        }
        if at.addr() >= BUSY {
            // The call that has the cursor was interrupted by this one: it goes on when this one has returned.
            (&raw mut (*this).cursor).write_volatile(at);
            begin::ready().into_iter().for_each(Process::lose);
            return None;
        }
        if at >= (*this).end {
            if this != tls::get::<Thread>() {
                // In the child of a fork, which has left this state: the call that was interrupted is not recorded.
                Thread::release(this, at);
                return None;
            }
            let process = begin::ready();
            let next = process.map_or(null_mut(), |process| Thread::refill(this, process));
            if next.is_null() {
                Thread::close_short_way(this);
                Thread::release(this, if (*this).chunk.is_null() { null_mut() } else { at });
                if process.is_none() && config::is_off() {
                    // A child of a fork that cannot make a file of its own.
                    tls::set(QUIET);
                }
                return None;
            }
            at = next;
        }
        Some(stamped_if_due(this, at))
    }
}

/// The thread's state and the place of an event. None where the call is not recorded.
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

/// Has the end of the thread told to [`ended`].
fn watch_end(this: *mut Thread) {
    // SAFETY: makes one key for the process; the destructor is ours.
    unsafe {
        let mut key = KEY.load(SeqCst);
        if key == 0 {
            let mut new: libc::pthread_key_t = 0;
            if libc::pthread_key_create(&mut new, Some(ended)) != 0 {
                return;
            }
            key = match KEY.compare_exchange(0, new + 1, SeqCst, SeqCst) {
                Ok(_) => new + 1,
                Err(other) => {
                    libc::pthread_key_delete(new);
                    other
                }
            };
        }
        libc::pthread_setspecific(key - 1, this.cast());
    }
}

/// The thread ends. Destructors of other keys may free after this one: it asks to be called again, as often as it may.
unsafe extern "C" fn ended(value: *mut libc::c_void) {
    let this: *mut Thread = value.cast();
    // SAFETY: the value is this thread's state, which is alive until the last call here.
    unsafe {
        (*this).ends += 1;
        if (*this).ends < 4 {
            libc::pthread_setspecific(KEY.load(SeqCst) - 1, value);
            return;
        }
        tls::set(ENDED);
        undisturbed(|| end(this));
    }
}

/// Writes the end of a thread, and gives back its chunk and its state.
unsafe fn end(this: *mut Thread) {
    // SAFETY: the state of the caller's thread, which uses it no more.
    unsafe {
        let Some(process) = begin::ready() else { return };
        let cursor = (*this).cursor;
        if cursor.addr() >= BUSY {
            // A handler of a signal left an event by a jump: nobody knows how much of it is there.
            if process.has_window() && !(*this).chunk.is_null() {
                process.close_chunk((*this).chunk, ticks());
            }
        } else if !cursor.is_null() {
            let passed = Thread::passed(this);
            let end = (*this).coder.put_other(cursor, Event::End, passed);
            // The chunk ends here; another thread may have the rest.
            let used = ((end.addr() - (*this).chunk.addr()) + 1).next_multiple_of(CHUNK_ALIGN);
            if process.has_window() {
                process.end_chunk((*this).chunk, used, (*this).length, ticks());
            } else {
                process.keep_rest((*this).chunk, used, (*this).length);
            }
        }
        process.keep_thread(this.cast(), Thread::bytes(process));
    }
}
