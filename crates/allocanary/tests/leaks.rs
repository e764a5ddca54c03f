//! `Leaks` as the global allocator, recording every block. A binary of its own, because its allocator records.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use allocanary::leaks::{self, Site};
use allocanary::{Counting, Leaks, counting};

#[global_allocator]
static GLOBAL: Leaks<System> = Leaks::new(System);

/// The sites that are called after the function, and what is alive there. They may be several: a loop that the compiler
/// unrolled calls from as many addresses.
fn sites(function: &str) -> (Vec<Site>, u64, u64) {
    let report = GLOBAL.report_top(usize::MAX);
    assert_eq!(report.unrecorded_blocks, 0);
    let title = format!("leaks::{function}");
    let sites: Vec<Site> = report.sites.into_iter().filter(|site| site.function == title).collect();
    let (blocks, bytes) =
        (sites.iter().map(|site| site.sum.blocks).sum(), sites.iter().map(|site| site.sum.bytes).sum());
    (sites, blocks, bytes)
}

const LINE_OF_LEAK: u32 = line!() + 4;

#[inline(never)]
fn leaks_a_block() {
    std::mem::forget(black_box(vec![1_u8; 12_345]));
}

#[inline(never)]
fn frees_its_block() {
    drop(black_box(vec![1_u8; 12_345]));
}

#[inline(never)]
fn calls_a_leak() -> u64 {
    leaks_a_block();
    black_box(1) // something to come back for, else the call is a jump and leaves no frame
}

#[test]
fn a_leaked_block_is_found_by_its_function_and_a_freed_one_is_not() {
    for _ in 0..3 {
        calls_a_leak();
        frees_its_block();
    }
    let (found, blocks, bytes) = sites("leaks_a_block");
    assert_eq!((blocks, bytes), (3, 3 * 12_345));
    let found = &found[0];
    assert_eq!(found.sum.estimated_bytes, found.sum.bytes as f64);
    assert!(found.youngest <= found.oldest && found.oldest < Duration::from_secs(600), "{found:?}");
    let whole: Vec<&str> = found.stack.iter().map(|frame| frame.function.as_str()).collect();
    assert!(whole.contains(&"leaks::calls_a_leak"), "the caller is in the stack: {whole:?}");
    assert!(!whole[0].contains("allocanary"), "the allocator itself is not: {whole:?}");
    assert_eq!(sites("frees_its_block").1, 0);
    let text = leaks::report(&GLOBAL).to_string();
    assert!(text.contains("leaks::leaks_a_block\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains("gimli"), "what the report itself allocates is not in it: {text}");
    // This package's release profile has no line tables; see `a_site_has_file_and_line` for one that has.
    if cfg!(debug_assertions) {
        assert!(found.file.as_ref().is_some_and(|file| file.ends_with("tests/leaks.rs")), "{found:?}");
        assert_eq!(found.line, Some(LINE_OF_LEAK));
    }
}

/// A function of a crate that has line tables in every profile.
#[test]
fn a_site_has_file_and_line() {
    std::mem::forget(black_box(proptest::test_runner::TestRunner::new(proptest::test_runner::Config::default())));
    let report = GLOBAL.report_top(usize::MAX);
    let mut of_proptest = report
        .sites
        .iter()
        .filter(|site| site.file.as_ref().is_some_and(|file| file.ends_with("src/test_runner/runner.rs")));
    let Some(found) = of_proptest.next() else { panic!("a runner allocates: {report}") };
    let (file, line) = (found.file.clone().expect("a file"), found.line.expect("a line"));
    let text = std::fs::read_to_string(&file).expect("the crate's source is where it was compiled");
    let text = text.lines().nth(line as usize - 1).expect("the file has the line");
    assert!(text.contains("new("), "{line}: {text}");
}

#[inline(never)]
fn grows_a_block() -> Vec<u8> {
    Vec::with_capacity(black_box(100))
}

#[inline(never)]
fn somebody_elses_function(mut block: Vec<u8>) -> Vec<u8> {
    block.reserve_exact(black_box(50_000));
    block
}

#[test]
fn a_block_that_moves_keeps_its_site() {
    let block = somebody_elses_function(grows_a_block());
    let (_, blocks, bytes) = sites("grows_a_block");
    assert_eq!((blocks, bytes), (1, 50_000), "the first site is kept");
    assert_eq!(sites("somebody_elses_function").1, 0);
    drop(block);
    assert_eq!(sites("grows_a_block").1, 0);
}

#[inline(never)]
fn keeps_the_last(pairs: u64) -> Option<Box<[u64; 8]>> {
    let mut last = None;
    for pair in 0..pairs {
        drop(last.take());
        last = Some(black_box(Box::new([pair; 8])));
    }
    last
}

const THREADS: usize = 8;

#[test]
fn threads_that_keep_their_last_block_are_all_in_the_report() {
    let gate = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                gate.wait();
                std::mem::forget(keeps_the_last(20_000));
            });
        }
    });
    let (_, blocks, bytes) = sites("keeps_the_last");
    assert_eq!((blocks, bytes), (8, 8 * 64));
}

/// A counter under the recorder, and both called directly: what one says the other must say, to the byte.
static DIRECT: Leaks<Counting<System>> = Leaks::new(Counting::new(System));

#[test]
fn counter_and_report_agree_to_the_byte() {
    let layout = |pair: usize| Layout::from_size_align(16 + pair % 64, 8).unwrap();
    let gate = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                gate.wait();
                let mut last = None;
                for pair in 0..40_000 {
                    // SAFETY: the size is not zero; the last block goes back with the layout that it has now.
                    last = unsafe {
                        if let Some((block, layout)) = last {
                            DIRECT.dealloc(block, layout);
                        }
                        let (old, new) = (layout(pair), layout(pair / 3));
                        let block = black_box(DIRECT.alloc(old));
                        if pair % 2 == 0 {
                            Some((block, old))
                        } else {
                            Some((black_box(DIRECT.realloc(block, old, new.size())), new))
                        }
                    };
                }
            });
        }
    });
    // The global allocator of this program is no `Counting`, so the total is what went through DIRECT.
    let (counted, report) = (counting::total(), DIRECT.report_top(3));
    assert_eq!(counted.allocations - counted.frees, THREADS as u64);
    assert_eq!((report.total.blocks, report.total.bytes), (THREADS as u64, counted.live as u64));
    assert_eq!(report.unrecorded_blocks, 0);
}

#[test]
fn a_table_that_is_full_is_said_so() {
    let small: Leaks<System> = Leaks::new(System).capacity(10);
    let layout = Layout::new::<[u64; 4]>();
    // SAFETY: the size is not zero.
    let blocks: Vec<*mut u8> = (0..13).map(|_| black_box(unsafe { small.alloc(layout) })).collect();
    let report = small.report();
    assert_eq!((report.total.blocks, report.unrecorded_blocks, report.unrecorded_bytes), (10, 3, 3 * 32));
    assert!(report.to_string().contains("no room for 3 more (96 B)"), "{report}");
    for block in blocks {
        // SAFETY: each block goes back as it came.
        unsafe { small.dealloc(block, layout) };
    }
    assert_eq!(small.alive().blocks, 0);
}

#[test]
fn recording_starts_and_stops() {
    let paused: Leaks<System> = Leaks::new(System).paused();
    let layout = Layout::new::<u64>();
    let alive = || paused.alive().blocks;
    // SAFETY: the size is not zero, and each block goes back as it came.
    unsafe {
        let before = black_box(paused.alloc(layout));
        assert_eq!(alive(), 0);
        paused.start();
        let during = black_box(paused.alloc_zeroed(layout));
        paused.stop();
        let after = black_box(paused.alloc(layout));
        assert_eq!(alive(), 1);
        paused.dealloc(before, layout);
        paused.dealloc(after, layout);
        assert_eq!(alive(), 1);
        assert!(black_box(paused.realloc(during, layout, 1 << 60)).is_null());
        assert_eq!(alive(), 1, "a block that could not grow is still there");
        paused.dealloc(during, layout);
        assert_eq!(alive(), 0, "a block that was recorded is forgotten after the stop, too");
    }
}

#[test]
fn the_child_of_a_fork_records_on() {
    // SAFETY: the child allocates, and leaves with no more than `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let kept = DIRECT_OF_FORK.alive().blocks;
        // SAFETY: the size is not zero.
        black_box(unsafe { DIRECT_OF_FORK.alloc(Layout::new::<u64>()) });
        let on = DIRECT_OF_FORK.alive().blocks == kept + 1;
        // SAFETY: ends the child without the parent's handlers.
        unsafe { libc::_exit(i32::from(!on)) };
    }
    let mut status = -1;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}

static DIRECT_OF_FORK: Leaks<System> = Leaks::new(System);
