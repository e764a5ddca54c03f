//! The malloc family of an allocator, with a count of what each thread allocates, for the settings `memory_budget` and `profile`. In: sizes.
//! Out: the budget is called after each [`chunk`] of a thread, and the sampler after each distance that it has drawn.
//!
//! The exported functions jump to the functions in [`Entries`]. Without these settings they are the allocator's own functions, and
//! nothing is added to the jump. With one of the settings, or with both, three instructions run before `malloc`.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use allocanary::budget::{LARGE, chunk};

use crate::budget;

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
/// C's `calloc`, and its `memalign`.
type OfTwo = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

/// The functions that allocate and free.
#[derive(Clone, Copy)]
pub struct MallocFunctions {
    /// C's `malloc`.
    pub malloc: Malloc,
    /// C's `calloc`.
    pub calloc: OfTwo,
    /// C's `realloc`.
    pub realloc: Realloc,
    /// C's `memalign`.
    pub memalign: OfTwo,
    /// C's `free`.
    pub free: Free,
}

/// The functions to which the exported functions jump.
pub struct Entries(UnsafeCell<MallocFunctions>);

// SAFETY: changed by the constructor alone, before there is a second thread.
unsafe impl Sync for Entries {}

impl Entries {
    /// Entries to the allocator's own functions.
    pub const fn new(functions: MallocFunctions) -> Entries {
        Entries(UnsafeCell::new(functions))
    }

    /// The functions in use now.
    #[inline(always)]
    pub fn get(&self) -> &MallocFunctions {
        // SAFETY: the constructor alone changes them, before there is a second thread.
        unsafe { &*self.0.get() }
    }

    /// Replaces the functions.
    ///
    /// # Safety
    ///
    /// The process has one thread, and no reference of [`get`](Entries::get) lives.
    pub unsafe fn set(&self, functions: MallocFunctions) {
        // SAFETY: the caller's promise.
        unsafe { *self.0.get() = functions };
    }
}

allocanary_sys::thread_word! {
    "allocanary_preload_counted",
    /// The bytes that remain of the calling thread's chunk, as a negative number; 0 when the thread starts.
    word,
    /// Sets the remaining bytes.
    set_word
}

allocanary_sys::thread_word! {
    "allocanary_preload_span",
    /// With a profile: the whole distance to the next sample or chunk, of which `word` has the remaining bytes; 0 when the thread starts.
    span,
    /// Sets the length.
    set_span
}

allocanary_sys::thread_word! {
    "allocanary_preload_since",
    /// With a profile: the bytes since the last call of the budget.
    since,
    /// Sets these bytes.
    set_since
}

/// Whether the budget is called from [`at_event`].
static HAS_BUDGET: AtomicBool = AtomicBool::new(false);

/// Makes [`at_event`] call the budget. With a profile, the budget has no entries of its own.
pub(crate) fn share_with_budget() {
    HAS_BUDGET.store(true, Relaxed);
}

/// Counts bytes that are about to be allocated. If they fill a chunk, the calling function returns the result of `full`, by a tail
/// call. So the usual path keeps nothing on the stack.
#[doc(hidden)]
#[macro_export]
macro_rules! __count {
    ($bytes:expr, $full:expr) => {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: changes this thread's copy of the word in `counted`.
        unsafe {
            ::core::arch::asm!(
                "mov rax, qword ptr [rip + allocanary_preload_counted@GOTTPOFF]",
                "add qword ptr fs:[rax], {bytes}",
                "jns {chunk}",
                bytes = in(reg) $bytes,
                chunk = label { return $full },
                out("rax") _,
                options(nostack),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        if $crate::counted::add($bytes) {
            return $full;
        }
    };
}

/// Adds to the word, and returns whether a chunk is full.
#[inline(always)]
pub fn add(bytes: usize) -> bool {
    let sum = word::<()>().addr().wrapping_add(bytes);
    set_word(std::ptr::without_provenance_mut::<()>(sum));
    sum as isize >= 0
}

/// Called when a chunk is full. It begins the next chunk first, so that allocations made from here do not call this function again.
#[cold]
#[inline(never)]
pub fn at_chunk(bytes: usize) {
    let (over, chunk) = (word::<()>().addr(), chunk() as usize);
    set_word(std::ptr::without_provenance_mut::<()>(chunk.wrapping_neg()));
    // A thread's first allocation begins its first chunk.
    let bytes = if over == bytes { bytes as u64 } else { chunk.saturating_add(over) as u64 };
    budget::at_chunk(bytes, bytes);
}

fn number(word: *mut ()) -> usize {
    word.addr()
}

fn as_word(number: usize) -> *mut () {
    std::ptr::without_provenance_mut(number)
}

/// Called when a thread has reached its next sample or the budget's next chunk, with the bytes that it is about to allocate. Returns
/// whether the block is sampled. It begins the next distance first, so that allocations made from here do not call this function
/// again.
#[cold]
#[inline(never)]
pub fn at_event(bytes: usize) -> bool {
    // Nothing was counted before a thread's first allocation.
    let done = number(span()).wrapping_add(number(word()));
    let is_sampled = allocanary_sampler::draw(done as u64);
    let has_budget = HAS_BUDGET.load(Relaxed);
    let since = if has_budget { number(since()).wrapping_add(done) } else { 0 };
    let is_due = has_budget && since as isize >= chunk() as isize;
    let kept = if is_due { 0 } else { since };
    let room = if has_budget { (chunk() as isize - kept as isize).max(1) as u64 } else { u64::MAX };
    let next = allocanary_sampler::left().min(room) as usize;
    set_since(as_word(kept));
    set_span(as_word(next));
    set_word(as_word(next.wrapping_neg()));
    if is_due {
        budget::at_chunk(since as u64, bytes as u64);
    }
    is_sampled
}

/// A large block is about to grow. The budget has already counted its present bytes, so they are subtracted here: the next
/// [`at_event`] counts the whole new size.
pub fn credit(bytes: usize) {
    if HAS_BUDGET.load(Relaxed) {
        set_since(as_word(number(since()).wrapping_sub(bytes)));
    }
}

/// Whether a `realloc` to this size goes through [`grow`].
#[inline(always)]
pub const fn is_large(size: usize) -> bool {
    size as u64 >= LARGE
}

/// Announces a block of this size that is about to be used as a whole, because a smaller block is copied into it.
#[cold]
#[inline(never)]
pub fn announce(size: usize) {
    budget::before_block(size as u64);
}

/// Counts the growth of a block from `usable` bytes to `size`, which [is large](is_large). Only the additional bytes
/// count.
#[cold]
#[inline(never)]
pub fn grow(usable: usize, size: usize) {
    let bytes = size.saturating_sub(usable);
    if add(bytes) {
        at_chunk(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts bytes, and returns whether they filled a chunk.
    fn count(bytes: usize) -> bool {
        fn full(bytes: usize) -> bool {
            at_chunk(bytes);
            true
        }
        __count!(bytes, full(bytes));
        false
    }

    #[test]
    fn each_thread_counts_for_itself_and_comes_after_each_chunk() {
        let counts = || {
            let chunk = chunk() as usize;
            let left = || word::<()>().addr().wrapping_neg();
            assert_eq!(left(), 0);
            assert!(count(100) && left() == chunk, "the first allocation begins a chunk");
            assert!(!count(1000) && !count(0) && left() == chunk - 1000);
            assert!(!count(chunk - 1001) && left() == 1);
            assert!(count(1) && left() == chunk);
            assert!(count(usize::MAX >> 1) && left() == chunk, "a size that no allocator has");
            assert!(!add(chunk - 1) && add(1), "the same where there is no such instruction");
        };
        std::thread::spawn(counts).join().unwrap();
        std::thread::spawn(counts).join().unwrap();
    }

    #[test]
    fn a_large_block_that_grows_counts_by_what_is_new() {
        let grows = || {
            let chunk = chunk() as usize;
            let left = || word::<()>().addr().wrapping_neg();
            assert!(count(1) && left() == chunk);
            grow(300 << 20, (300 << 20) + 1000);
            assert_eq!(left(), chunk - 1000);
            grow(400 << 20, 300 << 20);
            assert_eq!(left(), chunk - 1000, "it shrinks");
            grow(0, 4 << 20);
            assert_eq!(left(), chunk, "a new block: a chunk is full");
            assert_eq!([(2 << 20) - 1, 2 << 20].map(is_large), [false, true]);
        };
        std::thread::spawn(grows).join().unwrap();
    }

    #[test]
    fn with_a_profile_one_count_serves_both() {
        share_with_budget();
        let counts = || {
            let chunk = chunk() as usize;
            let left = || word::<()>().addr().wrapping_neg();
            // Without a profile nothing is sampled, and the next look comes after 64 KiB.
            let count = |bytes| add(bytes) && !at_event(bytes);
            assert!(count(100) && left() <= 64 << 10);
            let mut events = 0;
            let mut bytes = 100;
            while number(since()) != 0 || events == 0 {
                assert!(left() <= chunk - number(since()));
                events += usize::from(count(1000));
                bytes += 1000;
                assert!(bytes < 2 * chunk, "the budget was called");
            }
            assert!(bytes >= chunk && bytes < chunk + 2000, "{bytes}");
            credit(5000);
            assert_eq!(number(since()) as isize, -5000);
        };
        std::thread::spawn(counts).join().unwrap();
        HAS_BUDGET.store(false, Relaxed);
    }

    #[test]
    fn entries_are_the_allocators_until_they_are_set() {
        let own = MallocFunctions {
            malloc: libc::malloc,
            calloc: libc::calloc,
            realloc: libc::realloc,
            memalign: libc::memalign,
            free: libc::free,
        };
        unsafe extern "C" fn none(_: usize) -> *mut c_void {
            std::ptr::null_mut()
        }
        let entries = Entries::new(own);
        assert_eq!(entries.get().malloc as *const () as usize, libc::malloc as *const () as usize);
        // SAFETY: only this test uses the entries.
        unsafe { entries.set(MallocFunctions { malloc: none, ..own }) };
        // SAFETY: the function above.
        assert!(unsafe { (entries.get().malloc)(1) }.is_null());
    }
}
