//! One thread of a replay. In: its operations. Out: calls of the allocator. The tags of the blocks, and the epochs, keep the order of the
//! trace.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};
use std::time::Duration;

use super::{EVERY, OVER, Pool, Shared, of_epoch, of_slot};
use crate::error::{Error, Result};
use crate::layout::{Op, kind};
use crate::mapped::{LaneRecord, Zeroed};

/// A slot of the table, with a block or without one.
pub(crate) struct Entry {
    block: AtomicPtr<u8>,
    /// The size is in bits 17 and up. Bit 16 says whether the replay wrote the block's first byte. The tag is in the lower 16 bits: twice
    /// the generation, plus 1 while the slot has a block.
    state: AtomicU64,
}

// SAFETY: a null pointer and 0.
unsafe impl Zeroed for Entry {}

impl Entry {
    /// The address and the size of the slot's block, if it has one.
    pub(crate) fn live(&self) -> Option<(u64, u64)> {
        let state = self.state.load(Acquire);
        (state & 1 == 1).then(|| (self.block.load(Relaxed).addr() as u64, state >> 17))
    }
}

/// A thread of the replay.
pub(crate) struct Lane {
    /// 0 not started, 1 runs, 2 joined.
    state: AtomicU32,
    last: AtomicU32,
    thread: AtomicU64,
    shared: AtomicPtr<c_void>,
    runs: AtomicU64,
    count: AtomicU64,
    /// The index, plus 1, of the lane that ends in the same epoch and was started before this one; 0 if there is none.
    pub(crate) next: AtomicU32,
}

// SAFETY: numbers and a null pointer.
unsafe impl Zeroed for Lane {}

impl Lane {
    /// Starts the lane's thread. `Shared` outlives the thread, because `run` joins all lanes before it returns.
    pub(crate) fn start<A>(
        &self,
        shared: &Shared<A>,
        record: LaneRecord,
        work: extern "C" fn(*mut c_void) -> *mut c_void,
        stack: usize,
    ) -> Result<()> {
        self.last.store(record.last, SeqCst);
        self.runs.store(record.runs as u64, SeqCst);
        self.count.store(record.count as u64, SeqCst);
        self.shared.store((&raw const *shared).cast_mut().cast(), SeqCst);
        // SAFETY: C's contract. std's threads are not used, because they allocate with the measured allocator.
        let error = unsafe {
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            libc::pthread_attr_init(&mut attributes);
            libc::pthread_attr_setstacksize(&mut attributes, stack);
            let mut thread: libc::pthread_t = std::mem::zeroed();
            let error = libc::pthread_create(&mut thread, &attributes, work, (&raw const *self).cast_mut().cast());
            libc::pthread_attr_destroy(&mut attributes);
            self.thread.store(thread as u64, SeqCst);
            error
        };
        if error != 0 {
            let error = std::io::Error::from_raw_os_error(error);
            return Err(Error::new(format!("starting a thread of the replay: {error}")));
        }
        self.state.store(1, SeqCst);
        Ok(())
    }

    /// Waits for the end of the lane's thread, if it runs.
    pub(crate) fn join(&self) {
        if self.state.compare_exchange(1, 2, SeqCst, SeqCst).is_ok() {
            // SAFETY: a thread that was started and not joined.
            unsafe { libc::pthread_join(self.thread.load(SeqCst) as libc::pthread_t, std::ptr::null_mut()) };
        }
    }
}

/// How often a thread checks its condition before it sleeps, because the wait is often shorter than a sleep.
const LOOKS: u32 = 64;

/// Waits until `look` returns a value. `place` is the event count that the change notifies. If `look` fails, its error is the longest time
/// to wait. During the wait the first thread does its other work (`besides`). Returns `None` if the replay has failed.
fn wait_for<A, T>(
    shared: &Shared<A>,
    place: usize,
    besides: &mut Besides,
    mut look: impl FnMut() -> std::result::Result<T, Option<Duration>>,
) -> Option<T> {
    for _ in 0..LOOKS {
        if let Ok(found) = look() {
            return Some(found);
        }
        std::hint::spin_loop();
    }
    loop {
        let announced = shared.announce(place, besides.is_some());
        let limit = match look() {
            Ok(found) => return Some(found),
            Err(limit) => limit,
        };
        if shared.failed.load(SeqCst) != 0 {
            return None;
        }
        match besides {
            Some(besides) => {
                if !besides() {
                    shared.events[place].wait(announced, Some(limit.map_or(EVERY, |limit| limit.min(EVERY))));
                }
            }
            None => {
                shared.waits.fetch_add(1, Relaxed);
                shared.events[place].wait(announced, limit);
            }
        }
    }
}

/// The main function of a lane's thread.
pub(crate) extern "C" fn work<A: GlobalAlloc + Sync>(lane: *mut c_void) -> *mut c_void {
    // SAFETY: `Lane::start` gave both pointers, and both outlive this thread.
    let (lane, shared) = unsafe {
        let lane = &*lane.cast::<Lane>();
        (lane, &*lane.shared.load(SeqCst).cast::<Shared<A>>())
    };
    let record = LaneRecord {
        first: 0,
        last: lane.last.load(SeqCst),
        runs: lane.runs.load(SeqCst) as usize,
        count: lane.count.load(SeqCst) as usize,
    };
    if play(shared, &record, None) && record.last == u32::MAX {
        let look = || if shared.over.load(SeqCst) == 0 { Err(None) } else { Ok(()) };
        wait_for(shared, OVER, &mut None, look);
    }
    std::ptr::null_mut()
}

/// After blocks of at least this many bytes, the memory may be read again.
const LARGE: u64 = 16 << 10;

/// The other work of the first lane. It returns true if there was something to do.
pub(crate) type Besides<'a> = Option<&'a mut dyn FnMut() -> bool>;

/// Executes a lane's operations on this thread. Returns false if the replay has failed.
pub(crate) fn play<A: GlobalAlloc + Sync>(shared: &Shared<A>, record: &LaneRecord, mut besides: Besides) -> bool {
    let mut epoch = None;
    let mut verified = 0;
    let mut asked = 0;
    for run in 0..record.count {
        let run = shared.prepared.run(record, run);
        for op in shared.prepared.ops(run) {
            if !execute(shared, op, &mut epoch, &mut verified, &mut besides) {
                return false;
            }
            // Large blocks take long, so the first lane also reads memory between them.
            if op.value >= LARGE
                && let Some(besides) = &mut besides
            {
                asked += op.value;
                if asked >= 1 << 20 {
                    asked = 0;
                    besides();
                }
            }
        }
        shared.prepared.drop_run(run);
    }
    shared.verified.fetch_add(verified, SeqCst);
    if let Some(epoch) = epoch {
        shared.finish(epoch);
    }
    true
}

/// The layout of a block; `None` if its size or its alignment is not possible for a block.
#[inline(always)]
fn layout(size: usize, log2: u32) -> Option<Layout> {
    // SAFETY: the alignment is a power of two, and the size rounded up to it is far below `isize::MAX`.
    (size <= 1 << 47 && log2 <= 47).then(|| unsafe { Layout::from_size_align_unchecked(size.max(1), 1 << log2) })
}

/// Executes an operation. Returns false if the replay has failed.
#[inline(always)]
fn execute<A: GlobalAlloc + Sync>(
    shared: &Shared<A>,
    op: &Op,
    epoch: &mut Option<u32>,
    verified: &mut u64,
    besides: &mut Besides,
) -> bool {
    let (kind, log2, generation) = (op.what & 7, op.what >> 3 & 63, op.what >> 16);
    if kind >= kind::EPOCH {
        return kind == kind::END || begin(shared, op, epoch, besides);
    }
    let Some(entry) = shared.table.get(op.slot as usize) else { return shared.fail(1) };
    let wanted = u64::from((generation * 2 + u32::from(kind > kind::CALLOC)) & 0xFFFF);
    let mut state = entry.state.load(Acquire);
    if state & 0xFFFF != wanted {
        match wait(shared, entry, of_slot(op.slot), wanted, besides) {
            Some(found) => state = found,
            None => return false,
        }
    }
    if kind <= kind::CALLOC {
        let Some(layout) = layout(op.value as usize, log2) else { return shared.fail(1) };
        let is_malloc = kind == kind::MALLOC;
        let new = match shared.pool.filter(|_| op.is_elsewhere()) {
            Some(pool) => pool.alloc(layout, !is_malloc),
            // SAFETY: the size is not 0.
            None if is_malloc => unsafe { shared.allocator.alloc(layout) },
            // SAFETY: the size is not 0.
            None => unsafe { shared.allocator.alloc_zeroed(layout) },
        };
        return store(shared, op, entry, new, 0, is_malloc, generation * 2 + 1);
    }
    let (block, old, is_ours) = (entry.block.load(Relaxed), (state >> 17) as usize, state >> 16 & 1 == 1);
    // SAFETY: the block is live, and we wrote its first byte if `is_ours`.
    if is_ours && unsafe { block.read() } != op.slot as u8 {
        return shared.fail(3);
    }
    *verified += u64::from(is_ours);
    let Some(old_layout) = layout(old, log2) else { return shared.fail(1) };
    if kind == kind::FREE {
        let tag = ((generation + 1) * 2) & 0xFFFF;
        // SAFETY: this is the block's layout, and no other thread waits for its tag.
        unsafe { free(shared, block, old_layout) };
        entry.state.store(u64::from(tag), Release);
        shared.events[of_slot(op.slot)].notify();
        return true;
    }
    let Some(layout) = layout(op.value as usize, log2) else { return shared.fail(1) };
    // SAFETY: as above; the size is not 0.
    let new = unsafe {
        match shared.pool {
            Some(pool) => moved(shared, pool, op.is_elsewhere(), block, old_layout, layout),
            None => shared.allocator.realloc(block, old_layout, layout.size()),
        }
    };
    store(shared, op, entry, new, old, is_ours, (generation + 1) * 2 + 1)
}

/// Frees a block of the pool or of the allocator. The pool recognises its blocks by their addresses, so any thread may do this.
///
/// # Safety
///
/// `block` is one of the allocator or of the pool, with its layout, and is not used any more.
#[inline(always)]
unsafe fn free<A: GlobalAlloc>(shared: &Shared<A>, block: *mut u8, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe {
        match shared.pool.filter(|pool| pool.has(block)) {
            Some(pool) => pool.free(block),
            None => shared.allocator.dealloc(block, layout),
        }
    }
}

/// Resizes a block if there is a pool. `is_elsewhere` says whether the new block is in the pool, wherever the old one is. Returns null if
/// there is no memory.
///
/// # Safety
///
/// The same as for [`free`], and the new layout has the same alignment.
unsafe fn moved<A: GlobalAlloc>(
    shared: &Shared<A>,
    pool: &Pool<'_>,
    is_elsewhere: bool,
    block: *mut u8,
    old: Layout,
    new: Layout,
) -> *mut u8 {
    // SAFETY: the caller's promise; both blocks have at least the copied bytes, and they are different blocks.
    unsafe {
        match (pool.has(block), is_elsewhere) {
            (false, false) => return shared.allocator.realloc(block, old, new.size()),
            (true, true) if pool.resize(block, new) => return block,
            _ => {}
        }
        let place = if is_elsewhere { pool.alloc(new, false) } else { shared.allocator.alloc(new) };
        if !place.is_null() {
            place.copy_from_nonoverlapping(block, old.size().min(new.size()));
            free(shared, block, old);
        }
        place
    }
}

/// Writes to a new block as the program would, and puts it in the table. Its first `old` bytes were written before. Returns false if there
/// is no block.
#[inline(always)]
fn store<A>(shared: &Shared<A>, op: &Op, entry: &Entry, block: *mut u8, old: usize, is_ours: bool, tag: u32) -> bool {
    if block.is_null() {
        return shared.fail(2);
    }
    let size = (op.value as usize).max(1);
    // SAFETY: the block has `size` bytes, at least one.
    unsafe {
        // The replay does not write to a block of calloc. If a block has grown, only its new part is written.
        if is_ours || old > 0 {
            touch(block, old, size, shared.options.touch_full);
        }
        if is_ours {
            block.write(op.slot as u8);
        }
    }
    entry.block.store(block, Relaxed);
    entry.state.store((size as u64) << 17 | u64::from(is_ours) << 16 | u64::from(tag & 0xFFFF), Release);
    shared.events[of_slot(op.slot)].notify();
    true
}

/// Writes to each page of a block from byte `from` on, or to every byte if `full`.
///
/// # Safety
///
/// The block has `size` bytes.
#[inline(always)]
unsafe fn touch(block: *mut u8, from: usize, size: usize, full: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if full {
            if size > from {
                block.add(from).write_bytes(0xA5, size - from);
            }
            return;
        }
        if size <= 4096 && from == 0 {
            block.add(size - 1).write_volatile(0xA5);
            return;
        }
        let mut at = from;
        while at < size {
            block.add(at).write_volatile(0xA5);
            at += 4096;
        }
        if size > from {
            block.add(size - 1).write_volatile(0xA5);
        }
    }
}

/// Begins an epoch. Waits until the other threads have finished the epochs that must be complete, and until the epoch's
/// time has come.
#[inline(never)]
fn begin<A>(shared: &Shared<A>, op: &Op, epoch: &mut Option<u32>, besides: &mut Besides) -> bool {
    if let Some(before) = epoch.replace(op.slot) {
        shared.finish(before);
    }
    let place = of_epoch(op.slot);
    let look = || if shared.may_begin(op.slot) { Ok(()) } else { Err(None) };
    if wait_for(shared, place, besides, look).is_none() {
        return false;
    }
    // This runs even without a wait, because it reads memory and starts threads.
    if let Some(besides) = besides {
        besides();
    }
    if shared.options.pace > 0.0 {
        let due = op.value as f64 / shared.options.pace;
        let look = || {
            let now = shared.begun.elapsed().as_nanos() as u64;
            let now = now.saturating_sub(shared.paused.load(SeqCst)) as f64;
            if now >= due { Ok(()) } else { Err(Some(Duration::from_nanos((due - now) as u64))) }
        };
        return wait_for(shared, place, besides, look).is_some();
    }
    shared.failed.load(SeqCst) == 0
}

/// Waits until the slot has this tag. Returns `None` if the replay has failed.
#[cold]
#[inline(never)]
fn wait<A>(shared: &Shared<A>, entry: &Entry, place: usize, wanted: u64, besides: &mut Besides) -> Option<u64> {
    wait_for(shared, place, besides, || {
        let state = entry.state.load(Acquire);
        if state & 0xFFFF == wanted { Ok(state) } else { Err(None) }
    })
}
