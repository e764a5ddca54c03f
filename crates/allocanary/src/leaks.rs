//! Finds the live blocks, and the functions that allocated them. In: any `GlobalAlloc`. Out: the same allocator, and
//! reports by call site: bytes, blocks, ages, function, file and line.
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
//! The model is the leak tracking of Dgraph's manual memory (dgraph-io/ristretto, `z/calloc_jemalloc.go`): a map of all
//! blocks under one lock, with the caller's line or tag, in programs that call its `Calloc`. This module covers every
//! allocation.
//!
//! # What is recorded
//!
//! Without [`sampling`](Leaks::sampling) every block is recorded, which suits a test. With it there is on average one
//! sample per N bytes, which can stay on in production. The report then has estimates for all blocks next to the
//! sampled figures. A reallocated block keeps its record, and so its site and its age. Blocks from before
//! [`start`](Leaks::start) are unknown.
//!
//! Stacks are kept as code addresses and named when a report is made. Functions have names if the program has symbols.
//! Files and lines need line tables (`debug = "line-tables-only"` in the profile is enough), and so do inlined
//! functions. At most 24 frames are kept.
//!
//! # Implementation
//!
//! Recording needs no lock and no allocation. Records are in one mapping with a fixed number of places
//! ([`capacity`](Leaks::capacity)), made at the first record. If no place is left, a block is not recorded, and the
//! report counts such blocks. An allocation that is not sampled costs a subtraction in thread-local memory; a free
//! costs one access to an array of 64 KiB. Together that is 13 instructions: 4 to 9 % of a bare pair of the two with
//! glibc, which is 160 instructions and takes 10 ns. A sample costs about 1.3 microseconds for a stack of ten
//! functions: 18,000 instructions, nearly all in libgcc, which unwinds by tables because Rust's programs have no frame
//! pointers to follow. With one sample in 512 KiB that is 0.3 % of a CPU for each GiB per second that a program
//! allocates (`cargo bench --bench counting --features leaks`).
//!
//! A block's record is removed *before* the block is freed. (Dgraph frees first, and lost one block of eight.) After
//! the free, another thread may get the same address, and a late removal would take that thread's record.
//!
//! Recording is safe in the child of a fork, because it takes no lock. The child has its parent's records, and its
//! parent's blocks. A *report* in the child is not safe, like any report that names functions: the `backtrace` crate
//! names them under a lock, which another thread may have held at the fork. [`alive`](Leaks::alive) takes no lock.
//!
//! The distance to the next sample belongs to the thread, not to the allocator. Of several `Leaks` in one program, at
//! most one may sample. Any number of others may record every block.

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

use allocanary_sys::clocks;

/// The number of sites that [`Leaks::report`] lists.
pub const TOP: usize = 20;

/// An allocator that records its live blocks; see the [module](self).
pub struct Leaks<A> {
    inner: A,
    sampling: u64,
    /// The capacity of the table that will be made. An existing table keeps its own.
    capacity: usize,
    on: AtomicBool,
    /// The filter that each free reads: the one in the table's first bytes, or an empty one. So a free need not check whether there is a
    /// table.
    filter: AtomicPtr<Filter>,
    unrecorded_blocks: AtomicU64,
    unrecorded_bytes: AtomicU64,
}

impl<A> Leaks<A> {
    /// Wraps `allocator` and records every block from the first on, up to 65,536 alive at once.
    pub const fn new(allocator: A) -> Self {
        Leaks {
            inner: allocator,
            sampling: 0,
            capacity: 1 << 16,
            on: AtomicBool::new(true),
            filter: AtomicPtr::new(no_table()),
            unrecorded_blocks: AtomicU64::new(0),
            unrecorded_bytes: AtomicU64::new(0),
        }
    }

    /// Takes one sample per `bytes` bytes on average instead of recording every block; 0 and 1 mean every block. Set it before the first
    /// record: the estimates assume that every record is such a sample.
    pub const fn sampling(mut self, bytes: u64) -> Self {
        self.sampling = bytes;
        self
    }

    /// Sets the maximum number of records instead of 65,536. A record takes about 280 bytes, which are touched when the record is used. The
    /// first record makes the table; a new maximum has no effect after that.
    pub const fn capacity(mut self, records: usize) -> Self {
        self.capacity = if records == 0 { 1 } else { records };
        self
    }

    /// Does not record until [`start`](Leaks::start).
    pub const fn paused(mut self) -> Self {
        self.on = AtomicBool::new(false);
        self
    }

    /// Starts recording.
    pub fn start(&self) {
        self.on.store(true, Relaxed);
    }

    /// Stops recording. Existing records stay until their blocks are freed.
    pub fn stop(&self) {
        self.on.store(false, Relaxed);
    }

    /// The wrapped allocator.
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// The sum of all live blocks, without call sites. Does not allocate, and takes no lock.
    pub fn alive(&self) -> Sum {
        let mut sum = Sum::default();
        if let Some(table) = self.table() {
            table.for_each(&mut |record| sum.add(record, self.sampling));
        }
        sum
    }

    /// The live blocks: the 20 sites with the most bytes, and the sum of the others. Allocates, as
    /// [`report_top`](Leaks::report_top) does.
    pub fn report(&self) -> Report {
        self.report_top(TOP)
    }

    /// Like [`report`](Leaks::report), with `sites` sites. The time is proportional to the number of records and of
    /// listed sites. It allocates, and these allocations are not recorded. Other threads continue: a block that is made
    /// or freed meanwhile may be in the report or not.
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

    /// The table; `None` if no block was ever recorded.
    fn table(&self) -> Option<ManuallyDrop<Table>> {
        let filter = self.filter.load(Acquire);
        if filter == no_table() {
            return None;
        }
        let memory = NonNull::new(filter.cast())?;
        // SAFETY: the memory is of a table, and only `drop` drops a value of it.
        Some(ManuallyDrop::new(unsafe { Table::from_memory(memory) }))
    }

    /// The table, which is made if it does not exist; `None` if there is no memory for it.
    fn made_table(&self) -> Option<ManuallyDrop<Table>> {
        if self.filter.load(Acquire) == no_table() {
            let memory = Table::new(self.capacity)?.into_memory();
            if self.filter.compare_exchange(no_table(), memory.as_ptr().cast(), AcqRel, Acquire).is_err() {
                // SAFETY: another thread was faster. Nobody has seen our table, which is dropped here.
                drop(unsafe { Table::from_memory(memory) });
            }
        }
        self.table()
    }

    /// Whether the block may have a record. `false` means that it has none.
    #[inline(always)]
    fn may_have(&self, block: *mut u8) -> bool {
        // SAFETY: the empty filter lives as long as the program, and the filter in the table's first bytes as long as
        // `self`.
        unsafe { &*self.filter.load(Acquire) }.may_have(block as usize)
    }

    /// Called when the thread's countdown has ended at a block of `size` bytes, which was made or grew by `drawn` bytes. A random draw
    /// decides whether the block is recorded. A failed allocation ends the countdown too.
    #[cold]
    #[inline(never)]
    fn record(&self, block: *mut u8, size: u64, drawn: u64) {
        let is_hit = !self.is_sampling() || sampler::is_hit(drawn, self.sampling);
        if !is_hit || block.is_null() || !self.on.load(Relaxed) {
            return;
        }
        let Some(_inside) = Inside::enter() else { return };
        // The draws count for the whole block: the bytes from before it grew had their own draws.
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

    /// Removes the record of a block that may have one, before the block is freed.
    #[cold]
    #[inline(never)]
    fn forget(&self, block: *mut u8) {
        if let Some(table) = self.table() {
            table.remove(block as usize);
        }
    }

    /// Moves the record `number` (until now of `old` bytes) to the block, which has `size` bytes.
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
