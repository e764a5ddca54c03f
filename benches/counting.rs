//! What counting and leak sampling cost. In: the system's allocator bare, inside `Counting` and, with the feature, inside
//! `Leaks` that samples one in 512 KiB and one that never gets to a sample, called directly. Out: the time of
//! a pair of allocate and free of mixed sizes by thread count, and instructions per pair as callgrind counts them; the
//! time should rise by at most 5 %.
//!
//! `cargo bench --bench counting --features leaks` (the instructions need valgrind)
//!
//! The allocators take turns in rounds of a few milliseconds, and the ratio is taken within a round: a machine that
//! is slow for a second is slow for all of them.

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::hint::black_box;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::Barrier;
use std::thread;

use allocanary::Counting;
use allocanary::rng::Rng;

/// Four size classes by turns, as in `examples/pairs`, and one in 16 that is a page.
const SIZES: [usize; 16] = [16, 64, 256, 1024, 16, 64, 256, 1024, 16, 64, 256, 1024, 16, 64, 256, 4096];
const THREADS: [usize; 3] = [1, 2, 8];
const ROUNDS: usize = 301;
const PAIRS: u64 = 100_000;

/// What is timed: the bare pair, which is the worst case, and pairs among blocks that live.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Pair,
    Window,
}

type Timed<'a> = (&'a str, &'a (dyn Fn(Shape, u64, usize) -> f64 + Sync));

static COUNTING: Counting<System> = Counting::new(System);
#[cfg(feature = "leaks")]
static LEAKS: allocanary::Leaks<System> = allocanary::Leaks::new(System).sampling(512 << 10);
/// One in a TiB, that is none: what is left is the cost of a call that is not sampled.
#[cfg(feature = "leaks")]
static UNSAMPLED: allocanary::Leaks<System> = allocanary::Leaks::new(System).sampling(1 << 40);

fn main() {
    // Under callgrind, the program calls itself: `count <allocator> <pairs>`.
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, name, times] = &arguments[..]
        && word == "count"
    {
        let times = times.parse().expect("a number of pairs");
        match name.as_str() {
            "system" => pairs(&System, times),
            "counting" => pairs(&COUNTING, times),
            #[cfg(feature = "leaks")]
            "leaks" => pairs(&LEAKS, times),
            #[cfg(feature = "leaks")]
            "unsampled" => pairs(&UNSAMPLED, times),
            _ => panic!("no allocator {name}"),
        }
        return;
    }
    let timed: &[Timed] = &[
        ("system", &|shape, times, threads| time(shape, &System, times, threads)),
        ("counting", &|shape, times, threads| time(shape, &COUNTING, times, threads)),
        #[cfg(feature = "leaks")]
        ("leaks", &|shape, times, threads| time(shape, &LEAKS, times, threads)),
        #[cfg(feature = "leaks")]
        ("unsampled", &|shape, times, threads| time(shape, &UNSAMPLED, times, threads)),
    ];
    println!(
        "{:8} {:12} {:>7} {:>10} {:>8} {:>17}",
        "shape", "allocator", "threads", "ns/pair", "ratio", "middle half"
    );
    for shape in [Shape::Pair, Shape::Window] {
        for threads in THREADS {
            compare(timed, shape, threads);
        }
    }
    instructions();
}

/// Times all allocators in turn, round by round, and prints medians; the first is what the others are compared with.
fn compare(timed: &[Timed], shape: Shape, threads: usize) {
    let mut nanos: Vec<Vec<f64>> = timed.iter().map(|_| Vec::new()).collect();
    let mut ratios = nanos.clone();
    for round in 0..ROUNDS {
        let mut row = vec![0.0; timed.len()];
        for turn in 0..timed.len() {
            // Another one begins in every round.
            let at = (turn + round) % timed.len();
            row[at] = timed[at].1(shape, PAIRS / threads as u64, threads);
        }
        for (at, time) in row.iter().enumerate() {
            nanos[at].push(*time);
            ratios[at].push(time / row[0]);
        }
    }
    for (at, (name, _)) in timed.iter().enumerate() {
        let [low, ratio, high] = [0.25, 0.5, 0.75].map(|part| quantile(&mut ratios[at], part));
        let time = quantile(&mut nanos[at], 0.5);
        println!(
            "{:8} {name:12} {threads:>7} {time:>10.2} {ratio:>8.3} {:>17}",
            format!("{shape:?}").to_lowercase(),
            format!("{low:.3} to {high:.3}")
        );
    }
}

fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part) as usize]
}

/// Nanoseconds of processor time that a pair takes while so many threads do `times` pairs each. Not wall time: what other
/// programs take from us is not the allocator's, and what threads cost each other by sharing lines is processor time.
fn time(shape: Shape, allocator: &(impl GlobalAlloc + Sync), times: u64, threads: usize) -> f64 {
    let gate = Barrier::new(threads);
    let timed = || {
        run(shape, allocator, 64);
        gate.wait();
        let started = processor_nanos();
        run(shape, allocator, times);
        processor_nanos() - started
    };
    // New threads each time, one alone as well: the way to the next sample is a thread's, and of two that sample the one
    // would go the other's.
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

fn run(shape: Shape, allocator: &impl GlobalAlloc, times: u64) {
    match shape {
        Shape::Pair => pairs(allocator, times),
        Shape::Window => window(allocator, times),
    }
}

/// Allocates, writes a byte, frees; so many times. Not inlined, and of the same shape for each allocator.
#[inline(never)]
fn pairs(allocator: &impl GlobalAlloc, times: u64) {
    for pair in 0..times as usize {
        let (block, layout) = made(allocator, SIZES[pair % SIZES.len()]);
        // SAFETY: the block goes back where it came from with the layout it came with.
        unsafe { allocator.dealloc(black_box(block), layout) };
    }
}

/// The same with 256 blocks alive, of 16 bytes to 8 KiB, each replaced at random.
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

/// Instructions per pair: the same in every run. The difference of two runs leaves out what a process costs by itself.
fn instructions() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: skipped, valgrind is not installed (apt-get install valgrind)");
        return;
    }
    let this = std::env::current_exe().expect("a running program has a path");
    let collected = |name: &str, pairs: u64| -> u64 {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&this);
        let output = command.args(["count", name, &pairs.to_string()]).output().expect("valgrind starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // ==123== Collected : 1234567
        let count = text.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
        count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count in what valgrind said: {text}"))
    };
    let (few, many) = (16_000, 176_000);
    let per_pair = |name: &str| (collected(name, many) - collected(name, few)) as f64 / (many - few) as f64;
    let bare = per_pair("system");
    println!("{:12} {bare:>10.2} instructions per pair", "system");
    for name in if cfg!(feature = "leaks") { &["counting", "leaks", "unsampled"][..] } else { &["counting"] } {
        let count = per_pair(name);
        println!("{name:12} {count:>10.2} instructions per pair {:>8.3}", count / bare);
    }
}
