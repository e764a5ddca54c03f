//! Tests that a replay makes the calls of the trace.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;

use proptest::collection::vec;
use proptest::prelude::any;
use tempfile::NamedTempFile;

use super::*;
use crate::builder::TraceBuilder;
use crate::coder::{AllocFunction, Event};
use crate::merge::{At, Sink, merge};
use crate::prepare::Elsewhere;
use crate::reader::Trace;

fn prepared(bytes: &[u8]) -> PreparedTrace {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let out = NamedTempFile::new().unwrap();
    crate::prepare::write(&Trace::open(file.path()).unwrap(), out.path(), Default::default()).unwrap();
    PreparedTrace::open(out.path()).unwrap()
}

/// Prepares a trace with the marks of a run's header, and the requested marks that replace them.
fn prepared_at(bytes: &[u8], own: [u64; 3], asked: Marks) -> PreparedTrace {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    crate::record::put_marks(file.path(), own).unwrap();
    let out = NamedTempFile::new().unwrap();
    crate::prepare::write(&Trace::open(file.path()).unwrap(), out.path(), asked).unwrap();
    PreparedTrace::open(out.path()).unwrap()
}

/// The system's allocator, with counts of its calls: live blocks, and all blocks of each size.
#[derive(Default)]
struct Watched(Mutex<(BTreeMap<usize, usize>, BTreeMap<usize, u64>)>);

// SAFETY: the calls are passed on unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { System.alloc(layout) };
        let mut seen = self.0.lock().unwrap();
        assert_eq!(seen.0.insert(block.addr(), layout.size()), None);
        *seen.1.entry(layout.size()).or_default() += 1;
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        assert_eq!(self.0.lock().unwrap().0.remove(&block.addr()), Some(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Random programs with blocks that one thread makes and another one frees. Every allocation is made once, with its
/// size. The live blocks at the end are those of the program. No thread waits for ever.
#[test]
fn fuzz_every_life_is_the_same_in_a_replay() {
    let steps = vec((0_usize..5, any::<bool>(), any::<usize>(), 16_u64..3000), 1..2000);
    allocanary_testing::fuzz::holds(60, 1, steps, |steps| {
        let mut sample = TraceBuilder::new(1024);
        // Threads end, and others replace them.
        let mut threads: Vec<u32> = (0..5).collect();
        let (mut live, mut free, mut fresh) = (Vec::new(), Vec::new(), 0x10_0000);
        let mut made = BTreeMap::<usize, u64>::new();
        for (ticks, (at, frees, which, size)) in steps.into_iter().enumerate() {
            let (thread, size) = (threads[at], size * 8);
            if at > 0 && which % 50 == 0 {
                sample.event(thread, ticks as u64 * 30, Event::End);
                threads[at] = threads.iter().max().unwrap() + 1;
                continue;
            }
            // Avoids the case that the format cannot place exactly: this thread had the address recently, and another
            // thread has had it since.
            let is_stale = |sample: &TraceBuilder, address, last| last != thread && sample.is_recent(thread, address);
            if frees && !live.is_empty() {
                let at = which % live.len();
                let (address, last, _) = live[at];
                if !is_stale(&sample, address, last) {
                    live.swap_remove(at);
                    sample.event(thread, ticks as u64 * 30, Event::Free { address });
                    free.push((address, last));
                }
            } else {
                let known = free.pop().filter(|(address, last)| !is_stale(&sample, *address, *last));
                let address = known.map_or_else(
                    || {
                        fresh += 16;
                        fresh
                    },
                    |(address, _)| address,
                );
                sample.event(thread, ticks as u64 * 30, Event::New { how: AllocFunction::Malloc, address, size });
                *made.entry(size as usize).or_default() += 1;
                live.push((address, thread, size as usize));
            }
        }
        let prepared = prepared(&sample.finish());
        let watched = Watched::default();
        let mut moments = Vec::new();
        run(&prepared, &watched, ReplayOptions::default(), &mut |stop| moments.push((stop.moment, stop.live))).unwrap();
        let (alive, ever) = watched.0.into_inner().unwrap();
        assert_eq!(ever, made);
        let sorted = |sizes: Vec<usize>| {
            let mut sizes = sizes;
            sizes.sort();
            sizes
        };
        assert_eq!(sorted(alive.into_values().collect()), sorted(live.iter().map(|(.., size)| *size).collect()));
        assert_eq!(
            moments.iter().map(|(moment, _)| *moment).collect::<Vec<_>>(),
            [ReplayMoment::Peak, ReplayMoment::Idle]
        );
    });
}

/// The system's allocator, and the threads that requested blocks of 16 and of 32 bytes.
#[derive(Default)]
struct Threads(Mutex<[Vec<std::thread::ThreadId>; 2]>);

// SAFETY: the calls are passed on unchanged.
unsafe impl GlobalAlloc for Threads {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.lock().unwrap()[usize::from(layout.size() == 32)].push(std::thread::current().id());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Allocators treat a process's first thread differently: glibc gives it the data segment.
#[test]
fn the_program_s_first_thread_is_the_one_that_calls_and_others_are_others() {
    let mut sample = TraceBuilder::new(4096);
    let mut counts = [0, 0];
    for at in 0..3000_u64 {
        // The second thread begins soon, and ends before the first one.
        let is_second = (20..40).contains(&at);
        let size = 16 << u32::from(is_second);
        counts[usize::from(is_second)] += 1;
        let how = AllocFunction::Malloc;
        sample.event(u32::from(is_second), at * 10, Event::New { how, address: 0x10000 + at * 64, size });
        if at == 39 {
            sample.event(1, at * 10, Event::End);
        }
    }
    let threads = Threads::default();
    run(&prepared(&sample.finish()), &threads, ReplayOptions::default(), &mut |_| ()).unwrap();
    let [first, second] = threads.0.into_inner().unwrap();
    let here = std::thread::current().id();
    assert_eq!([first.len(), second.len()], counts);
    assert!(first.iter().all(|thread| *thread == here) && second.iter().all(|thread| *thread != here));
}

/// The first thread starts others one after the other, waits for each, and gives each a block.
#[test]
fn a_thread_for_each_task_does_not_stop_the_first_one() {
    let mut sample = TraceBuilder::new(4096);
    let (mut ticks, mut next) = (0, 0x10000);
    let mut pairs = |sample: &mut TraceBuilder, thread: u32, count: u64, ticks: &mut u64| {
        for _ in 0..count {
            *ticks += 20;
            sample.event(thread, *ticks, Event::New { how: AllocFunction::Malloc, address: next, size: 100 });
            sample.event(thread, *ticks + 10, Event::Free { address: next });
            next += 128;
        }
    };
    for task in 1..=100 {
        pairs(&mut sample, 0, 60, &mut ticks);
        let given = 0x1000_0000 + u64::from(task) * 1024;
        ticks += 20;
        sample.event(0, ticks, Event::New { how: AllocFunction::Malloc, address: given, size: 333 });
        pairs(&mut sample, task, 60, &mut ticks);
        ticks += 20;
        sample.event(task, ticks, Event::Free { address: given });
        sample.event(task, ticks + 10, Event::End);
    }
    let done = run(&prepared(&sample.finish()), &System, ReplayOptions::default(), &mut |_| ()).unwrap();
    // The operations include the ends of the threads.
    assert_eq!(done.operations, 2 * (100 * 120 + 100) + 100);
}

/// A waiting thread sleeps until its condition is true. Each of these threads has a hundred turns, and then waits for
/// the end. An epoch may end within a turn.
#[test]
fn a_thread_that_waits_is_woken_once_for_each_turn() {
    const THREADS: u32 = 8;
    const TURNS: u32 = 100;
    let mut sample = TraceBuilder::new(4096);
    let (mut ticks, mut next) = (0, 0x10000);
    for turn in 0..THREADS * TURNS {
        // These operations fill an epoch.
        for _ in 0..256 {
            ticks += 20;
            next += 128;
            sample.event(turn % THREADS, ticks, Event::New { how: AllocFunction::Malloc, address: next, size: 100 });
        }
    }
    let done = run(&prepared(&sample.finish()), &System, ReplayOptions::default(), &mut |_| ()).unwrap();
    assert_eq!(done.operations, u64::from(THREADS * TURNS * 256));
    // After a stop, the threads of the next epochs are woken as well.
    let most = THREADS * (2 * TURNS + 1) + 2 * 4;
    assert!(done.waits <= u64::from(most), "{} waits, at most {most} have a reason", done.waits);
}

/// In a damaged trace the first thread may have events after its end. These events wait for threads that begin in
/// between.
#[test]
fn a_first_thread_that_comes_twice_stops_nobody() {
    let mut sample = TraceBuilder::new(4096);
    let new = |address| Event::New { how: AllocFunction::Malloc, address, size: 64 };
    sample.event(0, 10, new(0x1000));
    sample.event(0, 20, Event::End);
    for at in 0..3000_u64 {
        sample.event(1, 1000 + at * 10, new(0x10000 + at * 64));
    }
    sample.event(0, 50_000, new(0x2000));
    let done = run(&prepared(&sample.finish()), &System, ReplayOptions::default(), &mut |_| ()).unwrap();
    assert_eq!(done.operations, 3003);
}

/// A replay of a trace without operations ends at once.
#[test]
fn a_trace_without_an_operation_ends() {
    let mut sample = TraceBuilder::new(4096);
    sample.event(0, 10, Event::Mark(0));
    let done = run(&prepared(&sample.finish()), &System, ReplayOptions::default(), &mut |_| ()).unwrap();
    assert_eq!(done.operations, 0);
}

/// The marks are at the trace's peak, and in its longest wait after the peak.
#[test]
fn marks_are_at_the_peak_and_in_the_longest_wait() {
    let mut sample = TraceBuilder::new(4096);
    let mut ticks = 0;
    for at in 0..2000_u64 {
        ticks += 10;
        sample.event(0, ticks, Event::New { how: AllocFunction::Malloc, address: 0x10000 + at * 512, size: 400 });
    }
    for at in 0..1500_u64 {
        ticks += 10;
        sample.event(0, ticks, Event::Free { address: 0x10000 + at * 512 });
    }
    ticks += 100_000_000 / 10; // 100 ms
    for at in 1500..2000_u64 {
        sample.event(0, ticks, Event::Free { address: 0x10000 + at * 512 });
    }
    let prepared = prepared(&sample.finish());
    let mut moments = Vec::new();
    let options = ReplayOptions { pace: 1.0, ..ReplayOptions::default() };
    let begun = std::time::Instant::now();
    let done = run(&prepared, &System, options, &mut |stop| moments.push((stop.moment, stop.live))).unwrap();
    let [(ReplayMoment::Peak, peak), (ReplayMoment::Idle, idle)] = moments[..] else { panic!("{moments:?}") };
    assert!((780_000..=800_000).contains(&peak), "{peak}");
    // The wait is between two stamps, so its begin is known to 16 events.
    assert!((190_000..=220_000).contains(&idle), "{idle}");
    assert!(begun.elapsed().as_millis() >= 100, "pace 1 keeps the wait");
    assert_eq!((done.operations, done.verified), (4000, 2000));
}

/// A requested mark replaces the trace's own mark. Marks of the trace that are then on the wrong side of it do not
/// count. Memory is measured up to the requested mark.
#[test]
fn marks_that_are_asked_for_may_lie_before_those_of_the_run() {
    const MS: u64 = 1_000_000;
    let mut sample = TraceBuilder::stamped(4096, 1);
    // 10 ns a tick: a block of 1 MiB each millisecond, for 100 ms.
    for at in 0..100_u64 {
        sample.event(
            0,
            at * MS / 10,
            Event::New { how: AllocFunction::Malloc, address: (at + 1) << 21, size: 1 << 20 },
        );
    }
    let bytes = sample.finish();
    for (peak, idle, wanted) in [
        (Some(20), None, [20, 80]),
        (Some(90), None, [90, 100]),
        (Some(20), Some(40), [20, 40]),
        (Some(50), None, [50, 80]),
        (None, None, [60, 80]),
    ] {
        let asked = Marks { ready: None, peak: peak.map(|ms| ms * MS), idle: idle.map(|ms| ms * MS) };
        let prepared = prepared_at(&bytes, [30 * MS, 60 * MS, 80 * MS], asked);
        let mut moments = Vec::new();
        let options = ReplayOptions { touch_full: true, ..ReplayOptions::default() };
        let done = run(&prepared, &System, options, &mut |stop| {
            if stop.moment != ReplayMoment::Ready {
                moments.push(stop.live >> 20);
            }
        });
        let done = done.unwrap();
        let near = moments.iter().zip(wanted).all(|(found, wanted)| found.abs_diff(wanted) <= 2);
        assert!(moments.len() == 2 && near, "{asked:?}: {moments:?}, wanted {wanted:?}");
        assert!(done.most_anon > 10 << 20, "{asked:?}: {done:?}");
        // The peak of the heap includes the time before ready and after the load.
        assert!(done.heap_peak >= done.most_anon.max((wanted[1] - 2) << 20), "{asked:?}: {done:?}");
    }
}

/// After blocks were resized and freed, the addresses of the live ones and the pages of all are reported. The tables
/// for this are not among these pages.
#[test]
fn where_blocks_lie_is_told_with_the_pages_that_they_have_been_in() {
    let mut sample = TraceBuilder::new(1024);
    let address = |at: u64| 0x1000_0000 + at * 0x10_0000;
    for at in 0..300_u64 {
        sample.event(0, at * 10, Event::New { how: AllocFunction::Malloc, address: address(at), size: 80 + at * 8 });
    }
    for at in 0..100_u64 {
        sample.event(0, 5000 + at * 10, Event::Free { address: address(at) });
    }
    // This block is larger than the free room of the allocator.
    sample.event(0, 7000, Event::Resize { address: address(299) });
    sample.event(0, 7001, Event::New { how: AllocFunction::Resized, address: address(400), size: 3 << 20 });
    let prepared = prepared(&sample.finish());
    let noted = Noted::new(System).unwrap();
    let file = NamedTempFile::new().unwrap();
    run(&prepared, &noted, ReplayOptions::default(), &mut |stop| {
        if stop.moment == ReplayMoment::Idle {
            noted.write(stop, file.as_file()).unwrap();
        }
    })
    .unwrap();
    let placed = crate::placed::Placed::read(file.path()).unwrap();
    let mut sizes: Vec<u64> = placed.blocks.iter().map(|block| block.size).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, (100..299).map(|at| 80 + at * 8).chain([3 << 20]).collect::<Vec<_>>());
    let is_in = |ranges: &[Range<u64>], address: u64| ranges.iter().any(|range| range.contains(&address));
    for block in &placed.blocks {
        // Every page of a block was written to.
        let mut pages = (block.address..block.address + block.size).step_by(4096);
        assert!(pages.all(|page| is_in(&placed.used, page) && is_in(&placed.resident, page)), "{block:?}");
    }
    let is_used = |range: &Range<u64>| is_in(&placed.used, range.start) && is_in(&placed.used, range.end - 1);
    assert!(placed.resident.iter().all(is_used), "{placed:?}");
    let bytes: u64 = placed.used.iter().map(|range| range.end - range.start).sum();
    // The most pages that a block may have, wherever the allocator puts it: other tests leave holes in the heap.
    let most = |size: u64| (size / 4096 + 2) * 4096;
    let blocks: u64 = (0..300).map(|at| most(80 + at * 8)).sum::<u64>() + most(3 << 20);
    assert!(bytes <= blocks, "the tables of the replay count: {bytes} of {blocks}");
    assert_eq!(
        (prepared.events_before(ReplayMoment::Idle), prepared.events_before(ReplayMoment::Ready)),
        (Some(401), None)
    );
    assert!(prepared.events_before(ReplayMoment::Peak).is_some_and(|events| events <= 401));
}

/// Marks the events that make blocks of some sizes.
struct MarkSizes<'a> {
    marked: &'a BTreeMap<u64, bool>,
    events: u64,
    elsewhere: Elsewhere,
}

impl Sink for MarkSizes<'_> {
    type Block = ();

    fn allocated(&mut self, _: At, _: AllocFunction, size: u64) {
        if self.marked[&size] {
            self.elsewhere.add(self.events);
        }
        self.events += 1;
    }

    fn freed(&mut self, _: At, (): ()) {
        self.events += 1;
    }

    fn resized(&mut self, at: At, (): (), size: u64) {
        self.allocated(at, AllocFunction::Resized, size);
    }
}

/// Threads make, resize and free blocks of each other. Exactly the blocks of the marked events are in the pool,
/// whatever happened to them before.
#[test]
fn fuzz_the_blocks_of_marked_events_lie_elsewhere_whoever_frees_or_resizes_them() {
    let steps = vec((0_u32..4, 0_u8..4, any::<usize>(), any::<bool>()), 1..2000);
    allocanary_testing::fuzz::holds(40, 1, steps, |steps| {
        let mut sample = TraceBuilder::new(1024);
        // No two blocks have the same address and size.
        let mut live: Vec<u64> = Vec::new();
        let mut marked: BTreeMap<u64, bool> = BTreeMap::new();
        for (event, (thread, what, which, is_marked)) in steps.into_iter().enumerate() {
            let (tick, event) = (event as u64 * 30, event as u64);
            let address = 0x10_0000 + (event << 16);
            let old = (what < 2 && !live.is_empty()).then(|| live.swap_remove(which % live.len()));
            let how = match old {
                Some(old) if what == 0 => {
                    sample.event(thread, tick, Event::Free { address: old });
                    continue;
                }
                Some(old) => {
                    sample.event(thread, tick, Event::Resize { address: old });
                    AllocFunction::Resized
                }
                None if which % 5 == 0 => AllocFunction::Calloc,
                None => AllocFunction::Malloc,
            };
            sample.event(thread, tick + 1, Event::New { how, address, size: 16 + event * 8 });
            live.push(address);
            marked.insert(16 + event * 8, is_marked);
        }
        let (file, form) = (NamedTempFile::new().unwrap(), NamedTempFile::new().unwrap());
        std::fs::write(file.path(), sample.finish()).unwrap();
        let trace = Trace::open(file.path()).unwrap();
        let mut marks = MarkSizes { marked: &marked, events: 0, elsewhere: Elsewhere::default() };
        merge(&trace, &mut marks).unwrap();
        let (asked, path) = (Marks::default(), form.path());
        crate::prepare::write_elsewhere(&trace, form.as_file(), path, asked, &marks.elsewhere).unwrap();
        let prepared = crate::prepare::open_elsewhere(path, file.path(), asked).unwrap();
        let noted = Noted::new(System).unwrap();
        let pool = Pool::new(noted.notes()).unwrap();
        let (region, blocks) = (pool.region(), NamedTempFile::new().unwrap());
        let mut stop = |stop: &ReplayStop<'_>| {
            if stop.moment == ReplayMoment::Idle {
                noted.write(stop, blocks.as_file()).unwrap();
            }
        };
        run_with(&prepared, &noted, Some(&pool), ReplayOptions::default(), &mut stop).unwrap();
        let placed = crate::placed::Placed::read(blocks.path()).unwrap();
        assert_eq!((placed.blocks.len(), placed.region.as_ref()), (live.len(), Some(&region)));
        for block in &placed.blocks {
            assert_eq!(region.contains(&block.address), marked[&block.size], "{block:?}");
            assert!(placed.used.iter().any(|used| used.contains(&(block.address + block.size - 1))), "{block:?}");
        }
        // Without a pool, the same form is replayed like any other.
        run(&prepared, &System, ReplayOptions::default(), &mut |stop| {
            assert!(stop.blocks().all(|block| !region.contains(&block.address)));
        })
        .unwrap();
    });
}
