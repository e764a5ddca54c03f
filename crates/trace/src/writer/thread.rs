//! One thread's writing. In: calls of the malloc family. Out: bytes in the thread's chunk.

use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;

use super::config;
use super::process::{self, KEY, Process};
use super::tls::{self, ticks};
use crate::coder::{Coder, Event, How};
use crate::format::{CHUNK_ALIGN, CHUNK_HEADER, Chunk, LONGEST_EVENT, STAMP_EVERY};

/// A thread's first chunk, and how often the next one doubles.
const FIRST_CHUNK: usize = 4096;
const DOUBLINGS: u32 = 3;

/// A thread's state, on pages that a fork wipes: all zeros means that a chunk must be taken first.
#[repr(C)]
pub(super) struct Thread {
    /// Where the next event goes.
    cursor: *mut u8,
    /// The last place at which an event and a stamp may begin.
    end: *mut u8,
    /// Ticks of the last stamp.
    stamp: u64,
    /// Events since then.
    since: u32,
    /// 1 while an event is written: a signal handler that allocates meanwhile is not recorded.
    busy: u32,
    /// One block in this many is recorded.
    rate: u32,
    /// The thread's number, and that of its next chunk.
    number: u32,
    chunks: u32,
    /// How often the destructor of the key has run.
    ends: u32,
    /// The chunk.
    chunk: *mut u8,
    length: usize,
    coder: Coder,
}

/// Marks a thread that must not record: it begins its state, or nothing is recorded.
const QUIET: *mut Thread = std::ptr::without_provenance_mut(1);

impl Thread {
    /// The pages of one state.
    pub(super) const BYTES: usize = size_of::<Thread>().next_multiple_of(4096);

    /// The rest of an event: counts it, and stamps if it is time.
    #[inline(always)]
    unsafe fn wrote(this: *mut Thread, cursor: *mut u8) {
        // SAFETY: the caller's state, on its own thread.
        unsafe {
            (*this).cursor = cursor;
            (*this).since += 1;
            if (*this).since >= STAMP_EVERY {
                Thread::stamp(this);
            }
            (&raw mut (*this).busy).write_volatile(0);
        }
    }

    /// Ticks since the last stamp, which is now. The counters of two cores may differ a little: time never goes back.
    #[inline(always)]
    unsafe fn passed(this: *mut Thread) -> u64 {
        let now = ticks();
        // SAFETY: as above.
        unsafe {
            let passed = now.saturating_sub((*this).stamp);
            (*this).stamp += passed;
            (*this).since = 0;
            passed
        }
    }

    /// Writes a stamp before an allocation whose address may have been another thread's. Returns the place behind it.
    #[inline(always)]
    unsafe fn stamp_foreign(this: *mut Thread, address: u64) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if !process::is_multi() || (*this).coder.recent(address).is_some() {
                return (*this).cursor;
            }
            let passed = Thread::passed(this);
            (*this).coder.put_other((*this).cursor, Event::Stamp, passed)
        }
    }

    #[inline(never)]
    unsafe fn stamp(this: *mut Thread) {
        // SAFETY: as above; the end leaves room for a stamp and a reading behind each event.
        unsafe {
            let passed = Thread::passed(this);
            (*this).cursor = (*this).coder.put_other((*this).cursor, Event::Stamp, passed);
            let Some(process) = process::ready() else { return };
            let errno = *libc::__errno_location();
            if let Some(kib) = process.sample((*this).stamp) {
                (*this).cursor = (*this).coder.put_other((*this).cursor, Event::Resident(kib), 0);
            }
            *libc::__errno_location() = errno;
        }
    }

    /// Takes the next chunk. False where there is none.
    unsafe fn refill(this: *mut Thread, process: &Process) -> bool {
        // SAFETY: as above; the chunk is this thread's alone.
        unsafe {
            if process.is_stopped() {
                return false;
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
            ((*this).chunk, (*this).cursor, (*this).end) = (null_mut(), null_mut(), null_mut());
            let wanted = match process.has_window() {
                true => {
                    let rest = if first { process.ring_rest() } else { None };
                    rest.or_else(|| process.ring_chunk(ticks()))
                }
                false => process.chunk(FIRST_CHUNK << (*this).chunks.min(DOUBLINGS), first),
            };
            let Some((offset, start, length)) = wanted else {
                if !process.is_stopped() {
                    process.lose();
                }
                return false;
            };
            if process.has_window() {
                // Each chunk is read by itself.
                (&raw mut (*this).coder).write_bytes(0, 1);
            }
            if first {
                ((*this).number, (*this).chunks) = (process.number_thread(), 0);
                (*this).rate = process.rate.load(SeqCst);
            }
            (*this).stamp = (*this).stamp.max(ticks());
            let (thread, number) = ((*this).number, (*this).chunks);
            let header = Chunk { offset, length: length as u32, thread, number, stamp: (*this).stamp, closed: 0 };
            header.write(std::slice::from_raw_parts_mut(start, CHUNK_HEADER));
            ((*this).chunk, (*this).length) = (start, length);
            (*this).chunks += 1;
            (*this).since = 0;
            (*this).cursor = start.add(CHUNK_HEADER);
            (*this).end = start.add(length - 4 * LONGEST_EVENT);
            // A thread whose events bring their own stamps comes to no other place that reads memory.
            if let Some(kib) = process.sample((*this).stamp) {
                (*this).cursor = (*this).coder.put_other((*this).cursor, Event::Resident(kib), 0);
            }
            true
        }
    }
}

/// The thread's state with room for an event; null where the call is not recorded.
#[inline(always)]
fn writable() -> *mut Thread {
    let this = tls::get();
    if this > QUIET {
        // SAFETY: the thread's own state.
        unsafe {
            if (*this).cursor < (*this).end && (&raw const (*this).busy).read_volatile() == 0 {
                (&raw mut (*this).busy).write_volatile(1);
                return this;
            }
        }
    } else if this == QUIET {
        return null_mut();
    }
    slow(this)
}

/// Begins the process's file, the thread's state, or its next chunk.
#[cold]
#[inline(never)]
fn slow(mut this: *mut Thread) -> *mut Thread {
    // SAFETY: the thread's own state and its own error number.
    unsafe {
        let errno = *libc::__errno_location();
        let found = (|| {
            if this.is_null() {
                tls::set(QUIET);
                let made: *mut Thread =
                    process::ready().map_or(null_mut(), |process| process.make_thread(Thread::BYTES)).cast();
                if made.is_null() {
                    // Off for good, or only while another thread begins the file.
                    tls::set::<Thread>(if config::is_off() { QUIET } else { null_mut() });
                    return null_mut();
                }
                watch_end(made);
                tls::set(made);
                this = made;
            }
            if (&raw const (*this).busy).read_volatile() != 0 {
                process::ready().into_iter().for_each(Process::lose);
                return null_mut();
            }
            (&raw mut (*this).busy).write_volatile(1);
            let process = process::ready();
            if process.is_some_and(|process| Thread::refill(this, process)) {
                return this;
            }
            (&raw mut (*this).busy).write_volatile(0);
            if process.is_none() && config::is_off() {
                // A child of a fork that cannot make a file of its own.
                tls::set(QUIET);
            }
            null_mut()
        })();
        *libc::__errno_location() = errno;
        found
    }
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
        tls::set(QUIET);
        let Some(process) = process::ready() else { return };
        if !(*this).cursor.is_null() {
            let passed = Thread::passed(this);
            let end = (*this).coder.put_other((*this).cursor, Event::End, passed);
            // The chunk ends here; another thread may have the rest.
            let used = ((end.addr() - (*this).chunk.addr()) + 1).next_multiple_of(CHUNK_ALIGN);
            if process.has_window() {
                process.end_chunk((*this).chunk, used, (*this).length, ticks());
            } else {
                process.keep_rest((*this).chunk, used, (*this).length);
            }
        }
        process.keep_thread(this.cast(), Thread::BYTES);
    }
}

/// Whether a block is among those that are recorded.
#[inline(always)]
fn is_chosen(this: *mut Thread, address: u64) -> bool {
    // SAFETY: the thread's own state.
    let rate = unsafe { (*this).rate };
    rate <= 1 || (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & 0xFFFF_FFFF < (1 << 32) / u64::from(rate)
}

/// Ends a call that writes nothing.
#[inline(always)]
fn skip(this: *mut Thread) {
    // SAFETY: the thread's own state.
    unsafe { (&raw mut (*this).busy).write_volatile(0) };
}

/// malloc returned this block. Nothing for a null pointer.
#[inline(always)]
pub fn allocated(block: *mut u8, size: usize) {
    let this = writable();
    if this.is_null() {
        return;
    }
    let address = block.addr() as u64;
    if block.is_null() || !is_chosen(this, address) {
        return skip(this);
    }
    // SAFETY: `writable` left room for an event.
    unsafe {
        let at = (*this).cursor;
        let cursor = if process::is_multi() && (*this).coder.recent(address).is_none() {
            let passed = Thread::passed(this);
            if size.wrapping_sub(1) < 504 {
                (*this).coder.put_malloc_stamped(at, address, size as u64, passed)
            } else {
                let at = (*this).coder.put_other(at, Event::Stamp, passed);
                (*this).coder.put_malloc(at, address, size as u64)
            }
        } else {
            (*this).coder.put_malloc(at, address, size as u64)
        };
        Thread::wrote(this, cursor);
    }
}

/// Another function returned this block. Nothing for a null pointer.
#[inline(always)]
pub fn allocated_by(how: How, block: *mut u8, size: usize) {
    let this = writable();
    if this.is_null() {
        return;
    }
    let address = block.addr() as u64;
    if block.is_null() || !is_chosen(this, address) {
        return skip(this);
    }
    // SAFETY: as above.
    unsafe {
        let at = Thread::stamp_foreign(this, address);
        let cursor = (*this).coder.put_new(at, how, address, size as u64);
        Thread::wrote(this, cursor);
    }
}

/// This block is about to be freed. Nothing for a null pointer.
#[inline(always)]
pub fn freed(block: *mut u8) {
    if block.is_null() {
        return;
    }
    let this = writable();
    if this.is_null() {
        return;
    }
    let address = block.addr() as u64;
    if !is_chosen(this, address) {
        return skip(this);
    }
    // SAFETY: as above.
    unsafe {
        let cursor = match (*this).coder.recent(address) {
            Some(entry) => (*this).coder.put_free_recent((*this).cursor, entry),
            None => {
                let passed = Thread::passed(this);
                (*this).coder.put_free((*this).cursor, address, passed)
            }
        };
        Thread::wrote(this, cursor);
    }
}

/// A realloc is about to begin with this block, which is not null. The result goes to [`resized`]: whether it is
/// recorded.
pub fn resizing(block: *mut u8) -> bool {
    let this = writable();
    if this.is_null() {
        return false;
    }
    let address = block.addr() as u64;
    if !is_chosen(this, address) {
        skip(this);
        return false;
    }
    // SAFETY: as above.
    unsafe {
        let passed = if (*this).coder.recent(address).is_some() { 0 } else { Thread::passed(this) };
        let (cursor, _) = (*this).coder.put_resize((*this).cursor, address, passed);
        Thread::wrote(this, cursor);
    }
    true
}

/// A realloc returned. `begun` is the result of [`resizing`].
pub fn resized(begun: bool, block: *mut u8, size: usize) {
    let this = writable();
    if this.is_null() {
        return;
    }
    let address = block.addr() as u64;
    let chosen = !block.is_null() && is_chosen(this, address);
    // SAFETY: as above.
    unsafe {
        let at = if chosen { Thread::stamp_foreign(this, address) } else { (*this).cursor };
        let coder = &mut (*this).coder;
        let cursor = match (begun, chosen) {
            (true, true) => coder.put_new(at, How::Resized, address, size as u64),
            (true, false) if block.is_null() && size > 0 => coder.put_other(at, Event::ResizeFailed, 0),
            (true, false) => coder.put_other(at, Event::ResizeFreed, 0),
            (false, true) => coder.put_new(at, How::Malloc, address, size as u64),
            (false, false) => return skip(this),
        };
        Thread::wrote(this, cursor);
    }
}

/// The process exits: writes a last reading of its memory, and marks the trace as complete.
pub fn exiting() {
    let this = writable();
    let Some(process) = process::ready() else { return };
    if !this.is_null() {
        process.sample_soon();
        // SAFETY: as above.
        unsafe {
            Thread::stamp(this);
            skip(this);
        }
    }
    process.exit();
}
