//! The memory of a process with glibc. A test lays it out as a given release would: two arenas, a thread cache, fast
//! bins, free blocks in bins, and two blocks with their own pages.

use super::arenas::BINS;
use super::chunks::Free;
use super::release::Release;
use crate::fake::FakeMemory;
use crate::{Memory, PAGE, ThreadId};

pub(super) const HEAP: u64 = 0x5555_0000_0000;
pub(super) const THREAD_HEAPS: [u64; 2] = [0x7e00_0000_0000, 0x7e00_0400_0000];
pub(super) const MMAPPED: u64 = 0x7f00_0000_0000;
const LIBC: u64 = 0x7f10_0000_0000;
const DATA: u64 = LIBC + 0x10000;
const THREAD: u64 = 0x7f20_0000_0800;
const INODE: u64 = 7;
pub(super) const HEAP_BYTES: u64 = 64 * PAGE;
pub(super) const THREAD_BYTES: u64 = 8 * PAGE;

/// What a walk must find.
#[derive(Debug, Default)]
pub(super) struct Truth {
    pub live: u64,
    pub blocks: u64,
    pub cached: u64,
    pub free: [Free; 2],
    /// A block after a free one.
    pub behind_free: u64,
    /// A live block of several pages.
    pub large: u64,
    /// The main arena.
    pub main: u64,
    /// The thread cache's list that has blocks.
    pub list: u64,
    /// The word `sbrk_base` of the parameters.
    pub params: u64,
}

/// Lays out a process. With `fixed` it is a static program, whose release is not in its constants.
pub(super) fn image(release: &Release, fixed: bool) -> (FakeMemory, Truth) {
    let mut fake = FakeMemory::default();
    fake.map(HEAP, HEAP_BYTES, true, 0, "[heap]");
    THREAD_HEAPS.iter().for_each(|&at| fake.map(at, THREAD_BYTES, true, 0, ""));
    fake.map(MMAPPED, 0x60 * PAGE, true, 0, "");
    fake.map(LIBC, 4 * PAGE, false, INODE, "/lib/libc.so.6");
    fake.map(DATA, 4 * PAGE, true, INODE, "/lib/libc.so.6");
    fake.map(THREAD & !(PAGE - 1), PAGE, true, 0, "");
    fake.threads.push(ThreadId { tid: 1, pointer: Some(THREAD) });
    if !fixed {
        let text = format!("GNU C Library (Test GLIBC) stable release version 2.{}.\n", release.since);
        fake.write(LIBC + 2 * PAGE - 20, text.as_bytes());
    }
    let main = DATA + 0x440;
    let mut truth = Truth { main, ..Truth::default() };
    let thread = THREAD_HEAPS[0] + release.heap_header;

    // The main arena: its cache first, then blocks of each kind.
    let mut chain = Chain { fake: &mut fake, release, bins: main + release.bins, at: HEAP, before: None, own: 0 };
    chain.own_bins();
    let cache = chain.used(release.cache.block);
    for size in (0x20..0x400).step_by(0x10) {
        chain.used(size);
        truth.block(size);
        chain.used(0x70);
        truth.block(0x70);
        if size % 0x40 == 0 {
            chain.free(size + 0x430);
            truth.free[0].add(size + 0x430);
            truth.behind_free = chain.used(0x120);
            truth.block(0x120);
        }
    }
    let cached = [chain.used(0x50), chain.used(0x50), chain.used(0x50)];
    truth.cached += 3 * 0x50;
    let fast = release.fast_bins.then(|| [chain.used(0x30), chain.used(0x30)]);
    truth.free[0].fast(fast.map_or(0, |fast| fast.len() as u64), 0x30);
    truth.large = chain.used(0x5000);
    truth.block(0x5000);
    let top = chain.top(HEAP + HEAP_BYTES);
    truth.free[0].add(HEAP + HEAP_BYTES - top);
    arena(&mut fake, release, main, top, thread, HEAP_BYTES);

    // The thread's arena: a full heap that ends with a fence, and a second heap.
    for (place, at) in THREAD_HEAPS.into_iter().enumerate() {
        fake.put(at, &[thread, if place == 0 { 0 } else { THREAD_HEAPS[0] }, THREAD_BYTES, THREAD_BYTES, PAGE]);
    }
    let from = |at: u64, arena: u64| (at + release.heap_header + arena).next_multiple_of(16);
    let at = from(THREAD_HEAPS[0], release.arena);
    let mut chain = Chain { fake: &mut fake, release, bins: thread + release.bins, at, before: None, own: 4 };
    chain.own_bins();
    for size in (0x20..0x200).step_by(0x20) {
        chain.used(size);
        truth.block(size);
    }
    let size = THREAD_HEAPS[0] + THREAD_BYTES - 32 - chain.at;
    chain.free(size);
    truth.free[1].add(size);
    chain.fence();
    let at = from(THREAD_HEAPS[1], 0);
    let mut chain = Chain { fake: &mut fake, release, bins: thread + release.bins, at, before: None, own: 4 };
    chain.used(0x1230);
    truth.block(0x1230);
    let top = chain.top(THREAD_HEAPS[1] + THREAD_BYTES);
    truth.free[1].add(THREAD_HEAPS[1] + THREAD_BYTES - top);
    arena(&mut fake, release, thread, top, main, 2 * THREAD_BYTES);

    // A thread cache with a list, and a fast bin.
    let mangled = |at: u64, link: u64| if release.mangled { link ^ at >> 12 } else { link };
    let list = cache + 16 + release.cache.bins * release.cache.count + 8 * 3;
    fake.put(list, &[cached[0] + 16]);
    truth.list = list;
    for (place, &at) in cached.iter().enumerate() {
        let next = cached.get(place + 1).map_or(0, |next| next + 16);
        fake.put(at + 16, &[mangled(at + 16, next)]);
    }
    if let Some(fast) = fast {
        fake.put(main + release.bins - 96 + 8, &[fast[1]]);
        fake.put(fast[1] + 16, &[mangled(fast[1] + 16, fast[0])]);
        fake.put(fast[0] + 16, &[mangled(fast[0] + 16, 0)]);
    }
    fake.put(THREAD, &[THREAD, 0, THREAD]);
    fake.put(THREAD - 0x48, &[cache + 16]);

    // Two blocks with their own pages. Between them is memory that is not malloc's.
    for (page, pages) in [(0, 0x22), (0x30, 0x30)] {
        let at = MMAPPED + page * PAGE;
        fake.put(at, &[0, (pages * PAGE - release.mmapped_short) | 2]);
        fake.touch(at, at + pages * PAGE);
        truth.block(pages * PAGE);
    }
    fake.put(MMAPPED + 0x22 * PAGE, &[7; 14]);
    truth.params = params(&mut fake, release);
    (fake.done(), truth)
}

fn arena(fake: &mut FakeMemory, release: &Release, at: u64, top: u64, next: u64, system: u64) {
    let bins = at + release.bins;
    fake.put(bins - 16, &[top, 0]);
    fake.put(bins + 2048, &[next, 0, 1, system, system]);
}

fn params(fake: &mut FakeMemory, release: &Release) -> u64 {
    let base = DATA + 2 * PAGE + 0x80;
    fake.put(base - 16, &[0x52 * PAGE, 0x60 * PAGE, HEAP, 64, 1032, 7, 0]);
    let pairs = [2_u32, 65536, 3, 0].map(u32::to_le_bytes);
    fake.write(base - release.n_mmaps, &pairs.concat());
    base
}

impl Truth {
    fn block(&mut self, size: u64) {
        self.live += size;
        self.blocks += 1;
    }
}

impl Free {
    fn add(&mut self, size: u64) {
        self.bytes += size;
        self.blocks += 1;
    }

    fn fast(&mut self, count: u64, size: u64) {
        self.bytes += count * size;
        self.fast_bytes += count * size;
        self.fast_blocks += count;
    }
}

/// Blocks, each directly after the other.
struct Chain<'a> {
    fake: &'a mut FakeMemory,
    release: &'a Release,
    bins: u64,
    at: u64,
    /// The size of the previous block, if that is free.
    before: Option<u64>,
    /// The bit that marks blocks of a thread arena.
    own: u64,
}

impl Chain<'_> {
    fn own_bins(&mut self) {
        for bin in 0..BINS {
            let own = self.bins + 16 * bin - 16;
            self.fake.put(self.bins + 16 * bin, &[own, own]);
        }
    }

    fn header(&mut self, size: u64, own: u64) -> u64 {
        let at = self.at;
        self.fake.put(at, &[self.before.unwrap_or(0), size | own | u64::from(self.before.is_none())]);
        self.before = None;
        self.at += size;
        at
    }

    fn used(&mut self, size: u64) -> u64 {
        let at = self.header(size, self.own);
        self.fake.put(at + 16, &vec![0x5a5a_5a5a_5a5a_5a5a; (size as usize - 24) / 8]);
        if size == self.release.cache.block {
            self.fake.put(at + 16, &vec![0; (size as usize - 24) / 8]);
        }
        at
    }

    /// Adds a free block. It becomes the last one of the second bin.
    fn free(&mut self, size: u64) -> u64 {
        let at = self.header(size, 0);
        let own = self.bins;
        let last = self.fake.word(own + 24).expect("the bins are there");
        self.fake.put(at + 16, &[own, last]);
        self.fake.put(last + 16, &[at]);
        self.fake.put(own + 24, &[at]);
        self.before = Some(size);
        at
    }

    fn top(&mut self, to: u64) -> u64 {
        let size = to - self.at;
        self.header(size, 0)
    }

    fn fence(&mut self) {
        self.header(16, 0);
        self.fake.put(self.at, &[16, 1]);
    }
}
