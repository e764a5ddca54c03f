//! Which blocks are alive, and who allocated them. In: any `GlobalAlloc`. Out: the same allocator, and reports by call
//! site: bytes, blocks, ages, function, file and line.
//!
//! ```no_run
//! use allocanary::Leaks;
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static GLOBAL: Leaks<System> = Leaks::new(System).sampling(512 * 1024);
//!
//! println!("{}", GLOBAL.report());
//! ```
//!
//! After the leak tracking of Dgraph's manual memory (dgraph-io/ristretto, `z/calloc_jemalloc.go`): there a map of all blocks
//! under one lock, with the caller's line or tag, in programs that call its `Calloc`. Here it is every allocation.
//!
//! # What is recorded
//!
//! Without [`sampling`](Leaks::sampling) every block is recorded, which suits a test. With it there is on average one sample
//! per N bytes, which can stay on in production: the report then has estimates of the whole next to the sampled figures. A
//! reallocated block keeps its record, that is its site and its age. Blocks from before [`start`](Leaks::start) are not known.
//!
//! Stacks are kept as code addresses and named when a report is made. Functions have names where the program has symbols,
//! files and lines where it has line tables (`debug = "line-tables-only"` in the profile is enough). At most
//! 24 frames are kept, and what was inlined is seen with line tables only.
//!
//! # Implementation
//!
//! Recording needs no lock and no allocation: records lie in one mapping with a fixed number of places
//! ([`capacity`](Leaks::capacity)), made at the first record. Where there is none left, a block goes unrecorded, and
//! the report says how many did. An allocation that is not sampled costs a subtraction in thread-local memory, a free a
//! look into an array of 64 KiB: together 13 instructions, 4 to 9 % of a bare pair of the two with glibc, which has 160 and
//! takes 10 ns. A sample costs some 1.3 microseconds for a stack of ten functions: 18,000 instructions, all but a few of them
//! libgcc's, which unwinds by tables since Rust's programs have no frame pointers to follow. With one in 512 KiB that is 0.3 %
//! of a processor for each GiB a second that a program allocates (`cargo bench --bench counting --features leaks`).
//!
//! A block's record is removed *before* the block is freed (Dgraph's frees first, and lost one block of eight). Once it is
//! free, another thread may be handed the same address, and it is that one's record which a late removal would take.
//!
//! Recording is safe in the child of a fork: nothing is held. The child has its parent's records, since it has its parent's
//! blocks. A *report* there is not, as little as any that names functions: the `backtrace` crate does so under a lock, which
//! another thread may have held at the fork; [`alive`](Leaks::alive) takes none.
//!
//! How far a thread has got to its next sample is the thread's, not the allocator's: of several `Leaks` in one program, at most
//! one may sample. Any number may record every block beside it.

mod filter;
mod hooks;
mod report;
mod sampler;
mod stack;
mod table;

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};

use filter::{Filter, NO_RECORDS};
pub use report::{Report, Site, Sum};
use sampler::Inside;
pub use stack::Frame;
use table::{Record, Table};

use allocanary_kernel::clocks;

/// How many sites [`Leaks::report`] lists.
pub const TOP: usize = 20;

/// An allocator that knows what is alive; see the [module](self).
pub struct Leaks<A> {
    inner: A,
    sampling: u64,
    capacity: usize,
    bits: u32,
    on: AtomicBool,
    /// What each free looks at: the filter at the head of the table, or the one of no records, so that it need not ask
    /// whether there is a table.
    filter: AtomicPtr<Filter>,
    unrecorded_blocks: AtomicU64,
    unrecorded_bytes: AtomicU64,
}

impl<A> Leaks<A> {
    /// Records every block of `allocator`, up to 65,536 alive at once, from the first on.
    pub const fn new(allocator: A) -> Self {
        Leaks {
            inner: allocator,
            sampling: 0,
            capacity: 1 << 16,
            bits: table::bits(1 << 16),
            on: AtomicBool::new(true),
            filter: AtomicPtr::new(no_table()),
            unrecorded_blocks: AtomicU64::new(0),
            unrecorded_bytes: AtomicU64::new(0),
        }
    }

    /// Records one in `bytes` bytes on average instead; 0 and 1 mean every block.
    pub const fn sampling(mut self, bytes: u64) -> Self {
        self.sampling = bytes;
        self
    }

    /// Has room for so many records, of about 280 bytes each, instead of 65,536. Memory is touched as they are used.
    pub const fn capacity(mut self, records: usize) -> Self {
        self.capacity = if records == 0 { 1 } else { records };
        self.bits = table::bits(self.capacity);
        self
    }

    /// Waits for [`start`](Leaks::start) instead of recording from the first allocation on.
    pub const fn paused(mut self) -> Self {
        self.on = AtomicBool::new(false);
        self
    }

    /// Records from now on.
    pub fn start(&self) {
        self.on.store(true, Relaxed);
    }

    /// Records no more. What was recorded stays, and goes when its block is freed.
    pub fn stop(&self) {
        self.on.store(false, Relaxed);
    }

    /// The allocator that does the work.
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// What is alive now, without saying where. Does not allocate, and takes no lock.
    pub fn alive(&self) -> Sum {
        let mut sum = Sum::default();
        if let Some(table) = self.table() {
            table.for_each(&mut |record| sum.add(record, self.sampling));
        }
        sum
    }

    /// What is alive now: the 20 sites with the most bytes, and the sum of the others.
    pub fn report(&self) -> Report {
        self.report_top(TOP)
    }

    /// The same with so many sites. Takes time in proportion to the records and to the sites named, and allocates; what it
    /// allocates is not recorded. Other threads go on: a block that comes or goes meanwhile may be in it or not.
    pub fn report_top(&self, sites: usize) -> Report {
        let _inside = Inside::enter();
        let unrecorded = (self.unrecorded_blocks.load(Relaxed), self.unrecorded_bytes.load(Relaxed));
        let records = |see: &mut dyn FnMut(&Record)| {
            if let Some(table) = self.table() {
                table.for_each(see);
            }
        };
        Report::fold(&records, clocks::monotonic_nanos(), self.sampling, sites, unrecorded)
    }

    #[inline(always)]
    const fn is_sampling(&self) -> bool {
        self.sampling > 1
    }

    /// The table, where a block was ever recorded.
    fn table(&self) -> Option<ManuallyDrop<Table>> {
        let filter = self.filter.load(Acquire);
        if filter == no_table() {
            return None;
        }
        let memory = NonNull::new(filter.cast())?;
        // SAFETY: the memory is of a table that was made with this capacity, and only `drop` drops a value of it.
        Some(ManuallyDrop::new(unsafe { Table::from_memory(memory, self.capacity, self.bits) }))
    }

    /// The table, made now where it is not there yet; none where there is no memory for it.
    fn made_table(&self) -> Option<ManuallyDrop<Table>> {
        if self.filter.load(Acquire) == no_table() {
            let memory = Table::new(self.capacity)?.into_memory();
            if self.filter.compare_exchange(no_table(), memory.as_ptr().cast(), AcqRel, Acquire).is_err() {
                // SAFETY: another thread was faster, and nobody has seen ours, which goes here.
                drop(unsafe { Table::from_memory(memory, self.capacity, self.bits) });
            }
        }
        self.table()
    }

    /// Whether the block may have a record; false is certain.
    #[inline(always)]
    fn may_have(&self, block: *mut u8) -> bool {
        // SAFETY: a filter that lives as long as the program, or as `self`: that of no records, or the table's first bytes.
        unsafe { &*self.filter.load(Acquire) }.may_have(block as usize)
    }

    /// What is left to do with a block of `size` bytes that was made or grew by `drawn` bytes, with which the thread's
    /// countdown has ended: the dice say whether it is a hit, and a hit is recorded. A block that was not made ends the
    /// countdown all the same.
    #[cold]
    #[inline(never)]
    fn record(&self, block: *mut u8, size: u64, drawn: u64) {
        let is_hit = !self.is_sampling() || sampler::is_hit(drawn, self.sampling);
        if !is_hit || block.is_null() || !self.on.load(Relaxed) {
            return;
        }
        let Some(_inside) = Inside::enter() else { return };
        // As if the whole block had been drawn for: what it was before it grew had its chance as well.
        let record = Record { size, drawn: size, born: clocks::monotonic_nanos(), frames: stack::capture() };
        if !self.made_table().is_some_and(|table| table.insert(block as usize, &record)) {
            self.unrecorded(size);
        }
    }

    #[cold]
    fn unrecorded(&self, size: u64) {
        self.unrecorded_blocks.fetch_add(1, Relaxed);
        self.unrecorded_bytes.fetch_add(size, Relaxed);
    }

    /// The end of a block that may have a record, before it is freed.
    #[cold]
    #[inline(never)]
    fn forget(&self, block: *mut u8) {
        if let Some(table) = self.table() {
            table.remove(block as usize);
        }
    }

    /// Moves the record `number` (of `old` bytes until now) to the block.
    fn attach(&self, block: *mut u8, number: u64, old: u64, size: u64) {
        let Some(table) = self.table() else { return };
        table.resize(number, size, size.saturating_sub(old));
        if !table.attach(block as usize, number) {
            self.unrecorded(size);
        }
    }
}

const fn no_table() -> *mut Filter {
    (&raw const NO_RECORDS).cast_mut()
}

impl<A> Drop for Leaks<A> {
    fn drop(&mut self) {
        if let Some(table) = self.table() {
            drop(ManuallyDrop::into_inner(table));
        }
    }
}

/// [`Leaks::report`] as a function.
pub fn report<A>(leaks: &Leaks<A>) -> Report {
    leaks.report()
}
