//! `Counting` as the global allocator: exact counts of known calls. A binary of its own, because its allocator counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::mpsc;
use std::sync::{Barrier, Mutex};
use std::thread;

use allocanary::Counting;
use allocanary::counting::{self, Counts};

#[global_allocator]
static GLOBAL: Counting<System> = Counting::new(System);

/// Totals are of the whole process, so a test that reads them must run alone. The counts of a thread are its own.
static ALONE: Mutex<()> = Mutex::new(());

fn is_alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn a_box_is_one_allocation_and_one_free() {
    let (value, counts) = counting::count(|| Box::new(7_u64));
    assert_eq!(counts, Counts { allocations: 1, bytes: 8, live: 8, peak: 8, ..Counts::default() });
    let ((), counts) = counting::count(|| drop(value));
    assert_eq!(counts, Counts { frees: 1, freed: 8, live: -8, ..Counts::default() });
    let (_, counts) = counting::count(|| black_box(1) + 1);
    assert_eq!(counts, Counts::default());
}

#[test]
fn a_vector_that_grows_is_one_allocation_and_reallocations() {
    let (words, counts) = counting::count(|| {
        let mut words = Vec::new();
        (0..100_u64).for_each(|word| words.push(black_box(word)));
        words
    });
    // 4, 8, 16, 32, 64, 128 words.
    let live = 128 * 8;
    let expected =
        Counts { allocations: 1, reallocations: 5, bytes: live, live: live as i64, peak: live, ..Counts::default() };
    assert_eq!(counts, expected);
    let (words, counts) = counting::count(|| {
        let mut words = words;
        words.shrink_to_fit();
        words
    });
    let shrunk = (128 - 100) * 8;
    assert_eq!(counts, Counts { reallocations: 1, freed: shrunk, live: -(shrunk as i64), ..Counts::default() });
    drop(words);
}

#[test]
fn strings_and_zeroed_memory_count_what_was_asked_for() {
    let (_, counts) = counting::count(|| String::from("thirteen char"));
    assert_eq!((counts.allocations, counts.frees, counts.bytes), (1, 0, 13));
    let (_, counts) = counting::count(|| vec![0_u8; 2608]);
    assert_eq!((counts.allocations, counts.reallocations, counts.bytes), (1, 0, 2608));
    let (_, counts) = counting::count(|| drop((black_box(vec![1_u8; 100]), black_box(vec![1_u8; 50]))));
    assert_eq!(counts, Counts { allocations: 2, frees: 2, bytes: 150, freed: 150, live: 0, peak: 150, ..counts });
}

#[test]
fn the_peak_is_that_of_the_span() {
    let held = black_box(vec![0_u8; 1 << 20]);
    let ((), outer) = counting::count(|| {
        drop(black_box(vec![0_u8; 1000]));
        let (kept, inner) = counting::count(|| {
            drop(black_box(vec![0_u8; 300]));
            vec![0_u8; 100]
        });
        assert_eq!((inner.peak, inner.live), (300, 100));
        drop(kept);
    });
    assert_eq!((outer.peak, outer.live, outer.allocations), (1000, 0, 3));
    drop(held);
    let panicked = std::panic::catch_unwind(|| counting::count(|| std::panic::resume_unwind(Box::new(1_u8))));
    assert!(panicked.is_err());
    assert!(counting::thread().peak >= 1 << 20, "the span that ended by a panic took the peak with it");
}

#[test]
fn a_failed_allocation_is_not_counted() {
    let layout = Layout::from_size_align(1 << 60, 8).unwrap();
    let (null, counts) = counting::count(|| {
        // SAFETY: the size is not zero.
        black_box(unsafe { GLOBAL.alloc(layout) }).is_null()
    });
    assert!(null);
    assert_eq!(counts, Counts::default());
    let small = Layout::new::<u64>();
    let ((), counts) = counting::count(|| {
        // SAFETY: the block is of that layout; the new size fits `isize`; after the failure the block is still there.
        unsafe {
            let block = black_box(GLOBAL.alloc(small));
            assert!(black_box(GLOBAL.realloc(block, small, 1 << 60)).is_null());
            GLOBAL.dealloc(block, small);
        }
    });
    assert_eq!((counts.allocations, counts.reallocations, counts.bytes, counts.live), (1, 0, 8, 0));
}

#[test]
fn a_block_that_another_thread_frees_is_live_below_zero_there() {
    let (send, receive) = mpsc::channel::<Vec<u8>>();
    let freed = thread::spawn(move || {
        let block = receive.recv().unwrap();
        counting::count(|| drop(block)).1
    });
    let (block, made) = counting::count(|| vec![1_u8; 4096]);
    send.send(block).unwrap();
    let freed = freed.join().unwrap();
    assert_eq!((made.live, made.frees), (4096, 0));
    assert_eq!((freed.live, freed.frees, freed.allocations, freed.peak), (-4096, 1, 0, 0));
}

#[test]
fn threads_count_apart_and_the_total_has_them_all() {
    let _alone = is_alone();
    const THREADS: u64 = 8;
    const PAIRS: u64 = 100_000;
    let before = counting::total();
    let gate = Barrier::new(THREADS as usize);
    let ended = |thread: u64| {
        gate.wait();
        let (last, counts) = counting::count(|| {
            let mut last = None;
            for _ in 0..PAIRS {
                last = Some(black_box(Box::new([thread; 8])));
            }
            last
        });
        std::mem::forget(last);
        assert_eq!((counts.allocations, counts.frees, counts.live), (PAIRS, PAIRS - 1, 64));
        assert_eq!(counts.peak, 128, "the next is made before the last is dropped");
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || ended(thread));
        }
    });
    let after = counting::total();
    let allocations = after.allocations - before.allocations;
    // The total also contains the allocations of the harness's threads, and those that each thread needs itself.
    assert!((THREADS * PAIRS..THREADS * PAIRS + 10_000).contains(&allocations), "{allocations}");
    let bytes = after.bytes - before.bytes;
    assert!((64 * THREADS * PAIRS..64 * THREADS * PAIRS + (10 << 20)).contains(&bytes), "{bytes}");
}

/// Allocates while its thread destroys its thread-local values.
struct Late(&'static Mutex<Option<Counts>>);

impl Drop for Late {
    fn drop(&mut self) {
        let ((), counts) = counting::count(|| drop(black_box(vec![1_u8; 777])));
        *self.0.lock().unwrap() = Some(counts);
    }
}

thread_local!(static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) });

#[test]
fn a_thread_that_ends_still_counts() {
    static SEEN: Mutex<Option<Counts>> = Mutex::new(None);
    thread::spawn(|| LATE.with(|late| *late.borrow_mut() = Some(Late(&SEEN)))).join().unwrap();
    let seen = SEEN.lock().unwrap().expect("the destructor ran");
    assert_eq!((seen.allocations, seen.frees, seen.bytes, seen.freed), (1, 1, 777, 777));
}

/// Runs in a destructor of C's thread-specific data, again and again, until ours has certainly run before it.
extern "C" fn very_late(turn: *mut libc::c_void) {
    drop(black_box(vec![1_u8; 1 << 20]));
    let turn = turn as usize;
    if turn < 3 {
        // SAFETY: the key is there: only its thread's end calls this.
        unsafe { libc::pthread_setspecific(*VERY_LATE.get().unwrap(), (turn + 1) as *const libc::c_void) };
    }
}

static VERY_LATE: std::sync::OnceLock<libc::pthread_key_t> = std::sync::OnceLock::new();

#[test]
fn what_comes_after_a_tally_was_handed_back_is_in_the_total() {
    let _alone = is_alone();
    let mut key = 0;
    // SAFETY: writes a new key; the destructor is a function.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(very_late)) }, 0);
    VERY_LATE.set(key).unwrap();
    let before = counting::total();
    thread::spawn(move || {
        // SAFETY: the key is there, and the value is a number.
        assert_eq!(unsafe { libc::pthread_setspecific(key, std::ptr::dangling::<libc::c_void>()) }, 0);
    })
    .join()
    .unwrap();
    let after = counting::total();
    assert!(after.bytes - before.bytes >= 3 << 20, "three turns of 1 MiB: {}", after.bytes - before.bytes);
    assert!(after.freed - before.freed >= 3 << 20);
}

#[test]
fn the_child_of_a_fork_counts_on() {
    let before = counting::thread().allocations;
    // SAFETY: the child counts, and leaves with no more than `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let (_, counts) = counting::count(|| Box::new(1_u64));
        let on = counting::thread().allocations > before && counts.allocations == 1;
        // SAFETY: ends the child without the parent's handlers.
        unsafe { libc::_exit(i32::from(!on)) };
    }
    let mut status = -1;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}
