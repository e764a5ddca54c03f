//! The cost of counting and leak sampling. In: an allocator without a wrapper and in each wrapper, called directly. The wrappers are
//! `Counting`, the crates `stats_alloc` and `cap`, the least work that any counter could do and, with the feature, `Leaks`. Out: the
//! processor time of a pair of allocate and free, relative to no wrapper, by thread count; and instructions per pair, as callgrind counts
//! them.
//!
//! `cargo bench --bench counting --features leaks` (the instructions need valgrind)
//!
//! The wrappers take turns in rounds of a few milliseconds, and the ratio is computed within a round. So a machine that is slow for a
//! second is slow for all of them.

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::cell::Cell;
use std::hint::black_box;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::Barrier;
use std::thread;

use allocanary::Counting;
use allocanary_sys::rng::Rng;
use allocanary_testing::callgrind;
use cap::Cap;
use stats_alloc::StatsAlloc;

/// Four size classes take turns, as in `crates/allocanary/examples/pairs`. One block in 16 is a page.
const SIZES: [usize; 16] = [16, 64, 256, 1024, 16, 64, 256, 1024, 16, 64, 256, 1024, 16, 64, 256, 4096];
const THREADS: [usize; 3] = [1, 2, 8];
const ROUNDS: usize = 301;

/// The timed work: the bare pair, which is the worst case, or pairs among live blocks.
#[derive(Clone, Copy, Debug)]
enum Calls {
    Pair,
    Window,
}

impl Calls {
    /// The number of pairs of all threads together in a round.
    fn pairs(self) -> u64 {
        match self {
            Calls::Pair => 100_000,
            Calls::Window => 50_000,
        }
    }
}

/// The least work that counts allocations, frees and the bytes of both: an add for each, in memory at a known address. It has no peak, and
/// only the thread itself could read the counts.
struct FourAdds<A>(A);

thread_local!(static ADDED: [Cell<u64>; 4] = const { [const { Cell::new(0) }; 4] });

// SAFETY: every call is passed on unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for FourAdds<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the allocator asks for.
        let block = unsafe { self.0.alloc(layout) };
        if !block.is_null() {
            ADDED.with(|[allocations, bytes, ..]| {
                allocations.set(allocations.get().wrapping_add(1));
                bytes.set(bytes.get().wrapping_add(layout.size() as u64));
            });
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        ADDED.with(|[.., frees, freed]| {
            frees.set(frees.get().wrapping_add(1));
            freed.set(freed.get().wrapping_add(layout.size() as u64));
        });
        // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) };
    }
}

/// An allocator to measure: timed with several threads, or under callgrind with this thread only.
struct Timed<'a> {
    name: &'static str,
    run: Box<dyn Fn(Calls, u64) + Sync + 'a>,
}

fn timed<'a>(name: &'static str, allocator: impl GlobalAlloc + Sync + 'a) -> Timed<'a> {
    Timed { name, run: Box::new(move |shape, times| run(shape, &allocator, times)) }
}

/// The allocator without a wrapper, to which the others are compared, and in each wrapper.
fn wrapped<A: GlobalAlloc + Sync + 'static>(inner: fn() -> A) -> Vec<Timed<'static>> {
    vec![
        timed("bare", inner()),
        timed("four adds", FourAdds(inner())),
        timed("Counting", Counting::new(inner())),
        timed("stats_alloc", StatsAlloc::new(inner())),
        timed("cap", Cap::new(inner(), usize::MAX)),
        #[cfg(feature = "leaks")]
        timed("Leaks", allocanary::Leaks::new(inner()).sampling(512 << 10)),
        // One sample in a TiB means none, so this is the cost of a call that is not sampled.
        #[cfg(feature = "leaks")]
        timed("Leaks, between", allocanary::Leaks::new(inner()).sampling(1 << 40)),
    ]
}

fn inners() -> Vec<(&'static str, Vec<Timed<'static>>)> {
    vec![
        ("system", wrapped(|| System)),
        #[cfg(feature = "jemalloc")]
        ("jemalloc", wrapped(|| tikv_jemallocator::Jemalloc)),
        #[cfg(feature = "mimalloc")]
        ("mimalloc", wrapped(|| mimalloc::MiMalloc)),
    ]
}

fn main() {
    // Under callgrind, the program calls itself: `count <allocator> <wrapper> <pairs>`.
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, inner, name, times] = &arguments[..]
        && word == "count"
    {
        let times = times.parse().expect("a number of pairs");
        let inners = inners();
        let (_, all) = inners.iter().find(|(known, _)| known == inner).expect("an allocator that is linked");
        let timed = all.iter().find(|timed| timed.name == name).expect("a wrapper that is listed");
        return (timed.run)(Calls::Pair, times);
    }
    println!("Processor time of a pair over the bare allocator's: median, and the middle half.\n");
    for (inner, all) in inners() {
        for shape in [Calls::Pair, Calls::Window] {
            let title = format!("{inner}, {}", format!("{shape:?}").to_lowercase());
            let threads = THREADS
                .map(|threads| format!("{:^18}", format!("{threads} thread{}", if threads == 1 { "" } else { "s" })));
            println!("{title:18} {}", threads.join("  "));
            let columns = THREADS.map(|threads| compare(&all, shape, threads));
            for (at, timed) in all.iter().enumerate() {
                println!("{:18} {}", timed.name, columns.each_ref().map(|column| column[at].as_str()).join("  "));
            }
            println!();
        }
    }
    instructions();
}

/// Times all wrappers in turn, round by round. Returns a cell of the table for each wrapper.
fn compare(all: &[Timed], shape: Calls, threads: usize) -> Vec<String> {
    let mut nanos: Vec<f64> = Vec::new();
    let mut ratios: Vec<Vec<f64>> = all.iter().map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        let mut row = vec![0.0; all.len()];
        for turn in 0..all.len() {
            // Each round begins with another wrapper.
            let at = (turn + round) % all.len();
            row[at] = time(shape, &all[at], shape.pairs() / threads as u64, threads);
        }
        nanos.push(row[0]);
        ratios.iter_mut().zip(&row).for_each(|(ratios, time)| ratios.push(time / row[0]));
    }
    let cell = |(at, ratios): (usize, &mut Vec<f64>)| match at {
        0 => format!("{:^18}", format!("{:.2} ns", quantile(&mut nanos, 0.5))),
        _ => {
            let [low, ratio, high] = [0.25, 0.5, 0.75].map(|part| quantile(ratios, part));
            format!("{ratio:5.2} {:12}", format!("[{low:.2}, {high:.2}]"))
        }
    };
    ratios.iter_mut().enumerate().map(cell).collect()
}

fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part) as usize]
}

/// The processor time of a pair in nanoseconds, while `threads` threads do `times` pairs each. Wall time would contain other programs'
/// work. The cost of shared cache lines is part of the processor time.
fn time(shape: Calls, of: &Timed, times: u64, threads: usize) -> f64 {
    let gate = Barrier::new(threads);
    let timed = || {
        (of.run)(shape, 64);
        gate.wait();
        let started = processor_nanos();
        (of.run)(shape, times);
        processor_nanos() - started
    };
    // Each call starts new threads, even for one thread. The distance to the next sample belongs to the thread, and two samplers in one
    // thread would share it.
    let nanos: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(timed)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
    });
    nanos as f64 / (times * threads as u64) as f64
}

fn processor_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn run(shape: Calls, allocator: &impl GlobalAlloc, times: u64) {
    match shape {
        Calls::Pair => pairs(allocator, times),
        Calls::Window => window(allocator, times),
    }
}

/// Allocates, writes a byte and frees, `times` times. It is not inlined, so that it has the same shape for each allocator.
#[inline(never)]
fn pairs(allocator: &impl GlobalAlloc, times: u64) {
    for pair in 0..times as usize {
        let (block, layout) = made(allocator, SIZES[pair % SIZES.len()]);
        // SAFETY: the block goes back where it came from with the layout it came with.
        unsafe { allocator.dealloc(black_box(block), layout) };
    }
}

/// Does the same with 256 blocks alive, of 16 bytes to 8 KiB, each replaced at random.
#[inline(never)]
fn window(allocator: &impl GlobalAlloc, times: u64) {
    let mut rng = Rng::new(1);
    let size = |rng: &mut Rng| (16 << rng.below(9)) + rng.below(16);
    let mut blocks = [(null_mut(), Layout::new::<u64>()); 256];
    blocks.fill_with(|| made(allocator, size(&mut rng)));
    for _ in 0..times {
        let at = rng.below(blocks.len());
        let (block, layout) = std::mem::replace(&mut blocks[at], made(allocator, size(&mut rng)));
        // SAFETY: as in `pairs`.
        unsafe { allocator.dealloc(block, layout) };
    }
    for (block, layout) in blocks {
        // SAFETY: as in `pairs`.
        unsafe { allocator.dealloc(block, layout) };
    }
}

#[inline(always)]
fn made(allocator: &impl GlobalAlloc, size: usize) -> (*mut u8, Layout) {
    let layout = Layout::from_size_align(black_box(size), 8).expect("8 is a power of two");
    // SAFETY: the layout's size is not zero.
    let block = unsafe { allocator.alloc(layout) };
    if block.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the block has at least a byte, and is ours alone.
    unsafe { block.write_volatile(1) };
    (block, layout)
}

/// Prints the instructions per pair, which are the same in every run.
fn instructions() {
    if !callgrind::is_here() {
        return;
    }
    let this = std::env::current_exe().expect("a running program has a path");
    println!("Instructions per pair, over the bare allocator's.\n");
    for (inner, all) in inners() {
        let per_pair = |timed: &Timed| {
            callgrind::each(16_000, 176_000, |pairs| {
                let mut command = Command::new(&this);
                command.args(["count", inner, timed.name, &pairs.to_string()]);
                command
            })
        };
        let counts: Vec<f64> = all.iter().map(per_pair).collect();
        for (timed, count) in all.iter().zip(&counts) {
            println!("{inner:9} {:16} {count:>8.2} {:>7.3}", timed.name, count / counts[0]);
        }
    }
}
