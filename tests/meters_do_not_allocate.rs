//! A meter that allocated while it reads would measure itself. A binary of its own, because the allocator counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use allocanary::allocator::Allocator;
use allocanary::allocators::System as TheSystem;
use allocanary::meters;

struct Counting;

thread_local! {
    /// This thread's calls alone: what the test harness does on its own threads is not the meters'.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more, and is not the one that reads.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is handed on to the system's allocator as it is; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that System asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

fn calls() -> u64 {
    CALLS.with(Cell::get)
}

/// Reads every meter; the calls that each made.
fn read_all(slots: &mut [Option<u64>], made: &mut [u64; meters::ALL.len()]) {
    let mut rest = slots;
    for (meter, made) in meters::ALL.iter().zip(made) {
        let (own, after) = rest.split_at_mut(meter.readings.len());
        let before = calls();
        (meter.read)(&TheSystem, own);
        *made = calls() - before;
        rest = after;
    }
}

#[test]
fn reading_allocates_nothing_after_the_first_time() {
    let before = calls();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(calls() - before, 2, "the allocator counts");

    let mut slots = [None; meters::READINGS];
    let mut made = [0; meters::ALL.len()];
    read_all(&mut slots, &mut made); // a stream that is kept is made here
    for _ in 0..3 {
        // C's malloc is not counted by us, but what it leaves behind is by the C library itself.
        let held = TheSystem.counters().allocated;
        slots.fill(None);
        read_all(&mut slots, &mut made);
        for (meter, made) in meters::ALL.iter().zip(made) {
            assert_eq!(made, 0, "{} called the allocator", meter.name);
        }
        assert_eq!(TheSystem.counters().allocated, held, "something was left behind");
    }
    let rss = slots[0].expect("the first reading is there on every Linux");
    assert!(rss > 256 << 10, "{rss}");
}
