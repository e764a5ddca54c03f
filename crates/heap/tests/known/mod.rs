//! A program that knows its live blocks: this test, started again. It counts the usable sizes of the blocks that it has
//! allocated, and waits.

use std::alloc::{GlobalAlloc, Layout};
use std::io::{BufRead, BufReader, Write, stderr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};

use allocanary_heap::{LiveProcess, Walk, walk_all};

static BYTES: AtomicU64 = AtomicU64::new(0);
static BLOCKS: AtomicU64 = AtomicU64::new(0);

/// An allocator that counts.
pub struct Counted<A> {
    /// The allocator.
    pub inner: A,
    /// The usable size of a block.
    pub usable: unsafe fn(*const u8) -> usize,
}

// SAFETY: every call is passed on unchanged, and counting does not allocate.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of the inner allocator.
        let block = unsafe { self.inner.alloc(layout) };
        if !block.is_null() {
            // SAFETY: the allocator has just given the block.
            BYTES.fetch_add(unsafe { (self.usable)(block) } as u64, SeqCst);
            BLOCKS.fetch_add(1, SeqCst);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller gives a block of this allocator.
        BYTES.fetch_sub(unsafe { (self.usable)(block) } as u64, SeqCst);
        BLOCKS.fetch_sub(1, SeqCst);
        // SAFETY: the caller's promises are those of the inner allocator.
        unsafe { self.inner.dealloc(block, layout) }
    }
}

const VARIABLE: &str = "ALLOCANARY_HEAP_TEST_WAITS";

/// In the started program: allocates, prints what is live, and waits until it is killed. Otherwise it does nothing.
pub fn program() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let (sender, receiver) = mpsc::channel::<Vec<Vec<u8>>>();
    let barrier = Arc::new(Barrier::new(4));
    let threads = [0, 1, 2, 3_usize].map(|thread| {
        let (sender, barrier) = (sender.clone(), barrier.clone());
        std::thread::spawn(move || {
            let sizes = (0..20_000_usize)
                .map(|turn| (turn * 7919 + thread * 104_729) % if turn % 500 == 0 { 2 << 20 } else { 1500 });
            let blocks: Vec<Vec<u8>> = sizes.map(|size| vec![1; size + 1]).collect();
            let (kept, given) = blocks.into_iter().enumerate().partition::<Vec<_>, _>(|(at, _)| at % 3 == 0);
            // Another thread frees these blocks.
            sender.send(given.into_iter().map(|(_, block)| block).collect()).unwrap();
            std::mem::forget(kept);
            // One thread ends. The memory that it leaves belongs to no thread.
            if thread > 0 {
                barrier.wait();
                loop {
                    std::thread::park();
                }
            }
        })
    });
    for _ in 0..4 {
        let mut given = receiver.recv().unwrap();
        let mut at = 0;
        given.retain(|_| {
            at += 1;
            at % 5 == 0
        });
        std::mem::forget(given);
    }
    barrier.wait();
    let [first, ..] = threads;
    first.join().unwrap();
    let _ = writeln!(stderr(), "\nlive {} {}", BYTES.load(SeqCst), BLOCKS.load(SeqCst));
    loop {
        std::thread::park();
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program, walks it, and compares. `test` is the test that calls [`program`].
pub fn compare(allocator: &str, test: &str, variables: &[(&str, &str)]) -> Walk {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(VARIABLE, "1").envs(variables.iter().copied());
    let mut child = Killed(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told = lines.filter_map(|line| line.strip_prefix("live ").map(String::from)).next().expect("a line");
    let (bytes, blocks) = told.split_once(' ').unwrap();

    let live = LiveProcess::open(child.0.id()).unwrap();
    let walks: Vec<Walk> = walk_all(&live).into_iter().filter_map(Result::ok).collect();
    let walk = walks.into_iter().find(|walk| walk.allocator == allocator).expect("a walk");
    assert_eq!((walk.live, walk.blocks), (bytes.parse().unwrap(), blocks.parse().unwrap()));
    assert_eq!((walk.breaks, walk.skipped, walk.layout.astray()), (0, 0, 0));
    assert!(walk.trust(walk.live).is_ok(), "{:?}", walk.checks);
    walk
}
