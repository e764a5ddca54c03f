//! A replay's own memory does not count as RssAnon: with an allocator that allocates nothing, RssAnon does not grow.
//! There is one test, so that it has its own process.

use std::alloc::{GlobalAlloc, Layout};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use allocanary_sys::sys::{line_number, read_once};
use allocanary_trace::builder::TraceBuilder;
use allocanary_trace::coder::{AllocFunction, Event};
use allocanary_trace::reader::Trace;
use allocanary_trace::replay::{PreparedTrace, ReplayOptions, run};
use tempfile::NamedTempFile;

const BLOCKS: u64 = 300_000;
const BYTES: usize = BLOCKS as usize * 2 * 64;

/// Hands out shared memory, which the kernel does not count as anonymous, and never reuses it.
struct Nothing {
    start: *mut u8,
    used: AtomicUsize,
}

// SAFETY: each part of the memory is handed out once.
unsafe impl Sync for Nothing {}

// SAFETY: every block has its own 64 bytes.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        assert!(layout.size() <= 64);
        let at = self.used.fetch_add(64, Relaxed);
        assert!(at < BYTES);
        // SAFETY: within the memory.
        unsafe { self.start.add(at) }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

fn anonymous() -> u64 {
    let mut text = [0; 4096];
    let length = read_once(c"/proc/self/status", &mut text);
    line_number(&text[..length], b"RssAnon:").expect("RssAnon") << 10
}

#[test]
fn an_allocator_that_allocates_nothing_adds_no_memory() {
    let mut trace = NamedTempFile::new().unwrap();
    {
        let mut sample = TraceBuilder::new(32 << 10);
        for at in 0..BLOCKS {
            let new = |address| Event::New { how: AllocFunction::Malloc, address, size: 64 };
            sample.event(0, at * 20, new(0x10_0000 + at * 64));
            sample.event(1, at * 20 + 10, new(0x1000_0000 + at * 64));
        }
        trace.write_all(&sample.finish()).unwrap();
    }
    let out = NamedTempFile::new().unwrap();
    allocanary_trace::prepare::write(&Trace::open(trace.path()).unwrap(), out.path(), Default::default()).unwrap();
    let prepared = PreparedTrace::open(out.path()).unwrap();
    // SAFETY: a new mapping of no file.
    let start = unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), BYTES, access, flags, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    let nothing = Nothing { start: start.cast(), used: AtomicUsize::new(0) };
    let before = anonymous();
    let mut most = 0;
    let done = run(&prepared, &nothing, ReplayOptions::default(), &mut |_| most = most.max(anonymous())).unwrap();
    assert_eq!(done.operations, 2 * BLOCKS);
    // 600,000 operations and their slots are 19 MiB. What remains is two stacks and the loader's own blocks.
    assert!(most < before + (256 << 10), "RssAnon rose from {before} to {most}");
}
