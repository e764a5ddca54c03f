//! The file of one process. In: environment variables. Out: chunks of a mapped file.
//!
//! The state is on a page that a fork wipes (`MADV_WIPEONFORK`): a child finds no state and begins its own file. The
//! file is mapped as a whole at the start, with its maximum length, and the mapping is not inherited (`MADV_DONTFORK`).
//! A chunk is a range of the file, which one atomic addition hands out. No descriptor is kept, because some programs
//! close descriptors that they did not open.

pub(super) mod begin;
mod file;
mod queue;
mod resident;
mod ring;

pub(super) use ring::RING;
#[cfg(test)]
pub(super) use ring::tests::Ring;

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use self::queue::Queue;
use super::memory::{map_wiped, page, populate};
use allocanary_trace::format::{CHUNK_ALIGN, CONFINED, DETACHED, at};

/// Time between two readings of RssAnon, in nanoseconds.
const SAMPLE_NS: u64 = 100_000_000;
/// The maximum number of thread states, and of rests of chunks, that are kept for new threads.
const KEPT: usize = 64;

/// Room for `/proc/self/status`.
#[repr(C)]
struct StatusText(UnsafeCell<[u8; 4096]>);

// SAFETY: only the thread that has set `sampling` uses it.
unsafe impl Sync for StatusText {}

/// The state of the process, which a fork wipes.
#[repr(C)]
pub(super) struct Process {
    /// 0 before the first call, 1 while a thread begins the file, 2 recording, 3 not recording.
    state: AtomicU32,
    /// 1 once recording has stopped.
    stopped: AtomicU32,
    /// 1 while a thread reads RssAnon.
    sampling: AtomicU32,
    /// The text of `/proc/self/status` at a reading. It is not on the stack, because a coroutine's stack may have only
    /// 8 KiB.
    text: StatusText,
    pub(super) rate: AtomicU32,
    /// The stack of one allocation in this many is recorded; 0 for none.
    pub(super) one_in: AtomicU32,
    /// The tables of stacks; null if no stacks are recorded.
    pub(super) tables: AtomicPtr<c_void>,
    /// The mapped file.
    base: AtomicPtr<u8>,
    limit: AtomicU64,
    /// The offset after the last chunk that was handed out; not of a window, whose places only the header of the file counts. That number is
    /// for readers: this one ends with the recording.
    given: AtomicU64,
    /// Ticks of the next reading of RssAnon, and ticks between two readings.
    pub(super) next_sample: AtomicU64,
    sample_ticks: AtomicU64,
    /// The length of the window in nanoseconds; 0 for the whole run.
    window: AtomicU64,
    /// The places of a window's closed chunks.
    queue: Queue,
    /// The number of places of a window that the tables of stacks use.
    table_places: AtomicU64,
    /// Bytes of the present thread states.
    own_bytes: AtomicU64,
    /// The most KiB of files, shared memory and the recorder's own memory together at a reading.
    most_apart: AtomicU64,
    /// The state for frees of threads that have ended, and a number that is 1 while a thread writes there.
    late: AtomicPtr<c_void>,
    late_busy: AtomicU32,
    /// States of ended threads.
    kept: [AtomicPtr<c_void>; KEPT],
    /// Ends of chunks of ended threads. Each number is offset << 20 | length.
    rests: [AtomicU64; KEPT],
}

/// The page with the state. After a fork the child has the page, but its content is wiped.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());
/// The key whose destructor ends a thread, plus 1; 0 before there is a key.
pub(super) static KEY: AtomicU32 = AtomicU32::new(0);

/// 1 once the process has a second thread: blocks may then come from other threads.
static MULTI: AtomicU32 = AtomicU32::new(0);

/// Whether blocks may come from other threads.
#[inline(always)]
pub(super) fn is_multi() -> bool {
    MULTI.load(Relaxed) != 0
}

/// The process's state, only for comparisons; null if there is none.
#[inline(always)]
pub(super) fn current() -> *const Process {
    PROCESS.load(SeqCst)
}

/// The process's state, if it records. Does not begin a recording.
pub(super) fn present() -> Option<&'static Process> {
    // SAFETY: the page is never unmapped, and zeros are a valid state.
    let process = unsafe { PROCESS.load(SeqCst).as_ref() };
    process.filter(|process| process.state.load(SeqCst) == 2)
}

impl Process {
    /// An 8-byte field of the file's header.
    pub(super) fn long(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the header is mapped for as long as the process lives, and the field is aligned.
        unsafe { AtomicU64::from_ptr(self.base.load(Relaxed).add(offset).cast()) }
    }

    /// A 4-byte field of the file's header.
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.base.load(Relaxed).add(offset).cast()) }
    }

    /// Gives a new thread its number.
    pub(super) fn number_thread(&self) -> u32 {
        let number = self.word(at::THREADS).fetch_add(1, SeqCst);
        if number > 0 {
            MULTI.store(1, SeqCst);
        }
        number
    }

    /// Counts a call that is not recorded.
    pub(super) fn lose(&self) {
        self.long(at::LOST).fetch_add(1, Relaxed);
    }

    /// Counts a call that is not recorded because a window has no chunk for its thread.
    pub(super) fn lose_without_chunk(&self) {
        self.long(at::NO_CHUNK).fetch_add(1, Relaxed);
        self.lose();
    }

    /// Whether recording has stopped, at the maximum size or on a full disk.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed) != 0
    }

    /// Whether only the last seconds are kept.
    pub(super) fn has_window(&self) -> bool {
        self.window.load(Relaxed) != 0
    }

    /// The first byte of the mapped file; null in the child of a fork, until it has a file of its own.
    pub(super) fn base(&self) -> *mut u8 {
        self.base.load(Relaxed)
    }

    /// The address and the length of the mapped file, if the file has tables of stacks.
    pub(super) fn file_with_stacks(&self) -> Option<(usize, usize)> {
        let (base, limit) = (self.base().addr(), self.limit.load(Relaxed) as usize);
        (self.one_in.load(Relaxed) > 0).then_some((base, limit))
    }

    /// Hands out a chunk: its offset, its place in memory and its length.
    pub(super) fn chunk(&self, wanted: usize, first: bool) -> Option<(u64, *mut u8, usize)> {
        if self.is_stopped() {
            return None;
        }
        let base = self.base.load(Relaxed);
        if first && let Some((offset, length)) = self.rest() {
            // SAFETY: an end of a chunk lies within the mapping.
            return Some((offset, unsafe { base.add(offset as usize) }, length));
        }
        let limit = self.limit.load(Relaxed);
        let after = |offset: u64| Some(offset + wanted as u64).filter(|end| *end <= limit);
        let Ok(offset) = self.given.fetch_update(SeqCst, SeqCst, after) else {
            self.stop(2);
            return None;
        };
        self.long(at::USED).fetch_max(offset + wanted as u64, SeqCst);
        // SAFETY: the range lies within the mapping, and is this thread's alone.
        let start = unsafe { base.add(offset as usize) };
        if !populate(start, wanted) {
            self.stop(3);
            return None;
        }
        Some((offset, start, wanted))
    }

    fn stop(&self, state: u32) {
        self.stopped.store(1, SeqCst);
        let _ = self.word(at::STATE).compare_exchange(0, state, SeqCst, SeqCst);
    }

    /// Keeps the unused end of an ended thread's chunk for another thread's first chunk. Returns false if the end is
    /// too short, or if enough ends are kept.
    pub(super) fn keep_rest(&self, start: *mut u8, used: usize, length: usize) -> bool {
        let rest = length.saturating_sub(used);
        if rest < 4 * CHUNK_ALIGN {
            return false;
        }
        // SAFETY: the length field in the header of the thread's own chunk.
        unsafe { start.add(4).cast::<u32>().write(used as u32) };
        let rest = (self.offset(start) + used as u64) << 20 | rest as u64;
        self.rests.iter().any(|kept| kept.compare_exchange(0, rest, SeqCst, SeqCst).is_ok())
    }

    /// Takes a rest: its offset and its length.
    fn rest(&self) -> Option<(u64, usize)> {
        let rest = self.rests.iter().map(|rest| rest.swap(0, SeqCst)).find(|rest| *rest != 0)?;
        Some((rest >> 20, (rest & 0xF_FFFF) as usize))
    }

    /// The offset of a place in the mapped file.
    pub(super) fn offset(&self, place: *mut u8) -> u64 {
        place.addr().wrapping_sub(self.base.load(Relaxed).addr()) as u64
    }

    /// Memory for a thread's state: `bytes` zero bytes. `bytes` must be the same in each call. Null if there is no
    /// memory.
    pub(super) fn make_thread(&self, bytes: usize) -> *mut c_void {
        let kept = self.kept.iter().map(|kept| kept.swap(null_mut(), SeqCst)).find(|kept| !kept.is_null());
        // The memory that an ended thread has left has no pages, so it was not in this sum.
        self.own_bytes.fetch_add(bytes as u64, Relaxed);
        kept.unwrap_or_else(|| map_wiped(bytes).cast())
    }

    /// Takes back the memory of an ended thread.
    pub(super) fn keep_thread(&self, thread: *mut c_void, bytes: usize) {
        // SAFETY: the thread does not use its state any more. The pages become zeros.
        unsafe { libc::madvise(thread, bytes, libc::MADV_DONTNEED) };
        let is_kept = |kept: &&AtomicPtr<c_void>| kept.compare_exchange(null_mut(), thread, SeqCst, SeqCst).is_ok();
        self.own_bytes.fetch_sub(bytes as u64, Relaxed);
        if self.kept.iter().find(is_kept).is_none() {
            // SAFETY: our own mapping, which nobody uses.
            unsafe { libc::munmap(thread, bytes) };
        }
    }

    /// The state, of `bytes` bytes, for frees of threads that have ended. `None` while another thread has it, or if
    /// there is no memory.
    pub(super) fn claim_late(&self, bytes: usize) -> Option<*mut c_void> {
        if self.late_busy.swap(1, SeqCst) != 0 {
            std::hint::spin_loop();
            return None;
        }
        if self.late.load(SeqCst).is_null() {
            self.late.store(self.make_thread(bytes), SeqCst);
        }
        let late = self.late.load(SeqCst);
        if late.is_null() {
            self.release_late();
        }
        (!late.is_null()).then_some(late)
    }

    pub(super) fn release_late(&self) {
        self.late_busy.store(0, SeqCst);
    }

    /// Whether it is time to read RssAnon.
    pub(super) fn is_due(&self, now: u64) -> bool {
        now >= self.next_sample.load(Relaxed)
    }

    /// Makes the next reading due.
    pub(super) fn sample_soon(&self) {
        self.next_sample.store(0, Relaxed);
    }

    /// Whether the trace is that of the caller's process, and not of one whose memory it shares.
    pub(super) fn is_own(&self) -> bool {
        // SAFETY: asks for a number.
        self.word(at::PID).load(SeqCst) == unsafe { libc::getpid() } as u32
    }

    /// Marks the trace as one that ended before its process confined itself.
    pub(super) fn confine(&self) {
        self.stop(CONFINED);
    }

    /// Marks the trace as complete.
    pub(super) fn exit(&self) {
        let _ = self.word(at::STATE).compare_exchange(0, 1, SeqCst, SeqCst);
    }

    /// Marks the trace as complete, and leaves its file. Other threads may be inside a call that writes. They continue
    /// in private memory, which replaces the chunks of the mapped file at the same addresses and is never unmapped. The
    /// rest of the file's mapping ends: from now on no thread gets a chunk of it.
    fn leave(&self) {
        self.stopped.store(1, SeqCst);
        self.exit();
        // This is only for a recorder that was put into the process: a trace from the program's start is not marked as
        // detached.
        let _ = self.word(at::ATTACHED).compare_exchange(1, DETACHED, SeqCst, SeqCst);
        let (base, limit) = (self.base.load(SeqCst), self.limit.load(SeqCst) as usize);
        let given = (self.given.swap(self.limit.load(SeqCst), SeqCst) as usize).next_multiple_of(page()).min(limit);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: replaces the mapping of the chunks, from which nothing is read any more. If there is no memory for
        // this, the file stays mapped. The only cost is its room on the disk. Nobody has an address after the chunks.
        unsafe {
            libc::mmap(base.cast(), given, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            libc::munmap(base.add(given).cast(), limit - given);
        }
    }
}
