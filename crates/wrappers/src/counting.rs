//! Counts what a program asks of its allocator, thread by thread. In: any `GlobalAlloc`. Out: the same allocator, and
//! how often and how much the current thread, a call or the whole process has allocated, freed and reallocated.
//!
//! ```
//! use allocanary::{Counting, counting};
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static GLOBAL: Counting<System> = Counting::new(System);
//!
//! let (words, counts) = counting::count(|| vec![0_u64; 326]);
//! assert_eq!((counts.allocations, counts.bytes), (1, 2608));
//! assert_eq!(counts.live, 2608, "{words:?} is still there");
//! ```
//!
//! # What is counted
//!
//! Calls that succeeded, with the bytes that were asked for (not what the allocator rounds them to):
//!
//! - an allocation, zeroed or not, adds 1 to `allocations` and its size to `bytes`;
//! - a free adds 1 to `frees` and the block's size to `freed`;
//! - a reallocation is a kind of its own: it adds 1 to `reallocations` and only the difference, to `bytes` where the block
//!   grows and to `freed` where it shrinks. So a `Vec` that is pushed to from empty makes one allocation, then
//!   reallocations, and its `bytes` are its capacity. A block that moves exists twice for a moment; `peak` leaves that out.
//!
//! A free is counted on the thread that frees. One thread's `live` is therefore what it allocated minus what it freed,
//! whoever freed or made the blocks, and below 0 where a thread frees what others made. Over all threads
//! ([`total`]) that cancels out.
//!
//! # Implementation
//!
//! Each thread adds to a tally of its own with plain adds: one look into thread-local memory, no locked instruction,
//! nothing shared. Tallies are in static memory, and from the 33rd thread alive at once in mapped memory; a thread
//! claims one at its first call, and its successor goes on in it, so that the sum over tallies is the total and a thread's
//! own counts are differences. The thread-local part has no destructor: it can be used until the thread's stack is gone.
//! What a thread does after its tally was handed back (in the destructors of C's thread-specific data that run after ours)
//! goes to one shared tally, and is in the total alone.
//!
//! A pair of allocate and free is five adds in memory (allocations, bytes and what is left to the peak; frees, and that
//! again), two loads of the tally's address and two branches: 14 instructions, where the pair itself is 160 in glibc, 110 in
//! mimalloc and 90 in jemalloc. Four adds alone, which keep no peak and which no other thread could read, are 8 or 9:
//! 1.05 of a bare pair of glibc's in time. So 5 % is out of reach there, and what counts is the program between the calls:
//! with 256 blocks alive it is 0 to 3 % over glibc's malloc, 7 to 11 % over jemalloc and 7 to 9 % over mimalloc
//! (`cargo bench --bench counting`, beside crates whose threads share their counters).
//!
//! Tried, and no faster: to subtract in memory and branch on the flags, in assembly (10 instructions); to compare before the
//! subtraction; a block's 1 and its bytes in one word, taken apart before it overflows; to give freed bytes back to the
//! room only when it is used up, which saves an add and costs a call wherever a thread is near its peak. A tally within
//! the thread-local memory would save 1 to 2 % of a bare pair: but then whoever reads it must lock out the thread's end.
//!
//! The tallies are the process's: two `Counting` allocators in one program count together. The child of a fork goes on
//! from its parent's counts.

mod pool;
mod tally;

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use pool::Mine;

/// An allocator that counts; see the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting<A>(A);

impl<A> Counting<A> {
    /// Counts what is asked of `allocator`.
    pub const fn new(allocator: A) -> Self {
        Counting(allocator)
    }

    /// The allocator that does the work.
    pub const fn inner(&self) -> &A {
        &self.0
    }
}

// SAFETY: every call is handed on as it is; counting touches no memory of the allocator, does not allocate nor unwind.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the allocator asks for.
        let block = unsafe { self.0.alloc(layout) };
        if !block.is_null() {
            let size = layout.size() as u64;
            pool::with(move |tally| tally.allocated(size), move |shared| shared.allocated(size));
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { self.0.alloc_zeroed(layout) };
        if !block.is_null() {
            let size = layout.size() as u64;
            pool::with(move |tally| tally.allocated(size), move |shared| shared.allocated(size));
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { self.0.realloc(block, layout, size) };
        if !moved.is_null() {
            let (old, new) = (layout.size() as u64, size as u64);
            pool::with(move |tally| tally.reallocated(old, new), move |shared| shared.reallocated(old, new));
        }
        moved
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Before the call, which is then a jump: nothing has to be kept across it.
        let size = layout.size() as u64;
        pool::with(move |tally| tally.freed(size), move |shared| shared.freed(size));
        // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) };
    }
}

/// What one thread did, between two points or since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks allocated.
    pub allocations: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Blocks reallocated.
    pub reallocations: u64,
    /// Bytes gained: by allocations, and by reallocations that grew.
    pub bytes: u64,
    /// Bytes given back: by frees, and by reallocations that shrank.
    pub freed: u64,
    /// `bytes` minus `freed`: below 0 where more was freed than allocated.
    pub live: i64,
    /// The most that `live` was on the way, in bytes; at least 0.
    pub peak: u64,
}

/// What all threads did together since the process began. There is no peak: threads have theirs at different times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Blocks allocated.
    pub allocations: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Blocks reallocated.
    pub reallocations: u64,
    /// Bytes gained: by allocations, and by reallocations that grew.
    pub bytes: u64,
    /// Bytes given back: by frees, and by reallocations that shrank.
    pub freed: u64,
    /// `bytes` minus `freed`: what is alive. Exact where other threads rest; while they run, a block that goes from one
    /// to another may be seen on one side only. Where a thread was stopped for good between two stores (the parent's, seen
    /// from the child of a fork; one's own, seen from a signal handler) it may be off by that thread's peak.
    pub live: i64,
}

/// Makes the call; its value and what it did with memory on the current thread. What it drops counts, what it returns is
/// alive. Calls may be nested, and each has its own peak.
///
/// # Panics
///
/// Where the program's global allocator is not a [`Counting`], since all that a test then asserts of zeros would hold.
pub fn count<T>(call: impl FnOnce() -> T) -> (T, Counts) {
    let Some(tally) = pool::mine() else { return (call(), Counts::default()) };
    assert!(
        is_installed(tally),
        "nothing is counted in this process: declare `#[global_allocator] static GLOBAL: Counting<System> = \
         Counting::new(System);`"
    );
    let before = tally.read();
    let lap = Lap { tally, peak: tally.start_peak() };
    let value = call();
    let counts = tally.read().since(&before);
    drop(lap);
    (value, counts)
}

/// Whether the program's global allocator counts. Tried out: that there are tallies does not say it, since [`thread`]
/// claims one, and so does a `Counting` that is not the global allocator.
fn is_installed(tally: Mine) -> bool {
    static IS: AtomicBool = AtomicBool::new(false);
    if !IS.load(Relaxed) && tally.counts(|| drop(black_box(Box::new(0_u8)))) {
        IS.store(true, Relaxed);
    }
    IS.load(Relaxed)
}

/// What the current thread did since it began. All zero in the destructors that run after the thread's tally was handed
/// back, and where the kernel had no page for one.
pub fn thread() -> Counts {
    pool::mine().map_or(Counts::default(), |tally| tally.read().since(&tally.start()))
}

/// What all threads did together, those that have ended included. Takes time in proportion to the most threads that were
/// ever alive at once; costs the running threads nothing.
pub fn total() -> Total {
    let mut total = Total::default();
    pool::for_each(|tally| {
        let tally = tally.read();
        total.allocations += tally.allocations;
        total.frees += tally.frees;
        total.reallocations += tally.reallocations;
        total.bytes = total.bytes.wrapping_add(tally.bytes);
        total.freed = total.freed.wrapping_add(tally.freed);
    });
    total.live = total.bytes.wrapping_sub(total.freed) as i64;
    total
}

/// The span of one [`count`]: at its end, also by a panic, the peak of the span around it stands again.
struct Lap {
    tally: Mine,
    peak: i64,
}

impl Drop for Lap {
    fn drop(&mut self) {
        self.tally.end_peak(self.peak);
    }
}

#[cfg(test)]
#[path = "counting/calls_tests.rs"]
mod tests;
