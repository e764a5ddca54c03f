//! Internal to [allocanary](https://docs.rs/allocanary): any release may change this crate.
//!
//! Samples the allocations of the program in which it runs. In: sizes, blocks. Out: a table of samples, and probes for tracers. The crate
//! `profile` has the table's layout, and reads the table from outside. `service` (feature of the same name) is for a program that samples
//! itself.
//!
//! It allocates nothing after the start, takes no lock and starts no thread. A signal handler may interrupt any of it and allocate, because
//! one instruction takes each place of the table. A fork wipes the table's pages. So a child begins an empty table at its first sample,
//! without its parent's blocks.

// On other processors this crate is empty, and nothing is sampled.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
// This crate runs inside other programs.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

mod closed;
mod filter;
mod frames;
mod probes;
mod samples;
#[cfg(feature = "service")]
pub mod service;
mod stack;
mod state;
mod table;
mod thread;
mod walkers;

use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};

use allocanary_stacks::object::MappedObject;
use allocanary_stacks::walk;
use allocanary_sys::clocks::monotonic_nanos;

use self::samples::Sample;
use self::state::{IS_BEFORE_FILTER, MEAN, OWN};
use self::table::Table;
use allocanary_profile::layout::{MARK, word};
use allocanary_profile::weight::{MEANS, weight};

pub use self::filter::may_be_sampled;
pub use self::state::is_before_filter;
pub use self::thread::{draw, left};

/// Leads a reader to the table. Its mark is in writable data, because it is not zero.
#[repr(C, align(16))]
struct Beacon {
    mark: [u8; MARK.len()],
    table: AtomicPtr<Table>,
}

static BEACON: Beacon = Beacon { mark: MARK, table: AtomicPtr::new(std::ptr::null_mut()) };
/// Where the sampler's code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplerPlace {
    /// In a library of its own, such as a preload. Frames of this library are left out.
    Library,
    /// In the program itself.
    Program,
    /// In a program that already runs. Blocks from before are not in the table.
    RunningProgram,
}

/// Begins to sample, for the life of the process. It looks up a function by the dynamic linker, which may allocate. Returns whether there
/// was memory for the table. Does nothing if the sampler is on, or if another thread is turning it on.
pub fn turn_on(mean: u64, place: SamplerPlace) -> bool {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    if IS_TAKEN.compare_exchange(false, true, Acquire, Relaxed).is_err() {
        return true;
    }
    let Some(table) = Table::map() else {
        IS_TAKEN.store(false, Release);
        return false;
    };
    walk::look_up();
    // SAFETY: this is an address of this file's code, which runs.
    if let Some(own) = unsafe { MappedObject::of(is_on as *const () as u64) }.filter(|_| place == SamplerPlace::Library)
    {
        OWN[0].store(own.start, Relaxed);
        OWN[1].store(own.end, Relaxed);
    }
    if place == SamplerPlace::RunningProgram {
        // Libraries that were closed before the table begins do not matter.
        closed::more();
    }
    let mean = mean.clamp(MEANS[0], MEANS[1]);
    thread::seed();
    MEAN.store(mean, Relaxed);
    thread::begin();
    filter::wipe_at_fork();
    table.begin(mean, (place == SamplerPlace::RunningProgram).then_some(word::LATE));
    std::hint::black_box(&BEACON.mark);
    BEACON.table.store(std::ptr::from_ref(table).cast_mut(), Release);
    true
}

/// Whether allocations are sampled.
pub fn is_on() -> bool {
    !BEACON.table.load(Relaxed).is_null()
}

/// The table of this process. `None` while another thread begins it, in the child of a fork.
fn table() -> Option<&'static Table> {
    // SAFETY: `turn_on` has stored the pointer, and the table stays mapped.
    let table = unsafe { BEACON.table.load(Acquire).as_ref() }?;
    if table.is_begun() {
        return Some(table);
    }
    // This is the child of a fork. A new seed gives its threads other draws than those of its parent's other children.
    thread::seed();
    table.begin(MEAN.load(Relaxed), Some(word::FORKED)).then_some(table)
}

/// A copy of the table's words: the header, the samples, and the frames. `None` if the sampler is off.
pub fn words() -> Option<[Vec<u64>; 3]> {
    let table = table()?;
    let copied = |words: &[AtomicU64]| words.iter().map(|word| word.load(Relaxed)).collect();
    Some([copied(&table.header), copied(table.samples.words()), copied(table.frames.words())])
}

/// Records a sampled block, which the allocator has just made and the program does not have yet.
#[cold]
#[inline(never)]
pub fn allocated(block: *mut u8, size: usize) {
    if block.is_null() || size == 0 {
        return;
    }
    if is_before_filter() {
        return filtered();
    }
    let Some(table) = table() else { return };
    let (address, size) = (block.expose_provenance() as u64, size as u64);
    let bytes = weight(size, MEAN.load(Relaxed));
    let frame = stack::of_here(table);
    table.count(word::SAMPLED);
    table.frames.add(frame, bytes, bytes / size as f64);
    let sample = Sample { address, size, frame, seconds: seconds(table) };
    if table.samples.insert(&sample) {
        filter::add(address);
        probes::alloc(address, size, bytes as u64);
    } else {
        table.count(word::FULL);
        table.header[word::FULL_BYTES].fetch_add(bytes as u64, Relaxed);
    }
}

fn seconds(table: &Table) -> u64 {
    monotonic_nanos().saturating_sub(table.header[word::BEGAN].load(Relaxed)) / 1_000_000_000
}

/// A sampled block that was taken out of the table.
#[must_use]
pub struct Leaving(Sample);

/// Takes a block out of the table. It must run before the allocator frees the block, because another block may get the address at once.
/// `None` if the block was not sampled.
#[cold]
#[inline(never)]
pub fn take(block: *mut u8) -> Option<Leaving> {
    let table = table()?;
    let sample = table.samples.remove(block.addr() as u64)?;
    filter::remove(sample.address);
    Some(Leaving(sample))
}

impl Leaving {
    /// Ends the sample: the block is freed.
    pub fn freed(self) {
        probes::free(self.0.address);
    }

    /// Puts the block back into the table, because a `realloc` failed and the allocator has kept it.
    pub fn stays(self) {
        if let Some(table) = table()
            && table.samples.insert(&self.0)
        {
            filter::add(self.0.address);
        }
    }
}

/// Called for a block that is about to be freed, if [`may_be_sampled`] is not sure about it.
#[cold]
#[inline(never)]
pub fn freed(block: *mut u8) {
    if let Some(leaving) = take(block) {
        leaving.freed();
    }
}

/// How long [`before_filter`] waits for other threads' walks, in milliseconds. A walk takes microseconds. A walk that this thread's own
/// signal handler has interrupted cannot end during the wait.
const WALKS_END: u32 = 1000;

/// Ends sampling. The process is about to give itself a filter of system calls, which may kill it for a call that a walk makes. When this
/// returns, no thread takes a sample or walks its stack. Blocks that are freed leave the table as before.
pub fn before_filter() {
    IS_BEFORE_FILTER.store(true, SeqCst);
    let Some(table) = table() else { return };
    for _ in 0..WALKS_END {
        if !stack::is_any_walked(table) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Counts a sample that was not taken, because the process has given itself a filter of system calls, or forbidden itself the time-stamp
/// counter. In the child of a fork that has no table of its own yet, it is not counted: a new table would have to read the time.
pub fn filtered() {
    // SAFETY: `turn_on` has stored the pointer, and the table stays mapped.
    let table = unsafe { BEACON.table.load(Acquire).as_ref() };
    if let Some(table) = table.filter(|table| table.is_begun()) {
        table.count(word::FILTERED);
    }
}

/// Called after a library was closed, because another one may get its addresses.
pub fn library_closed() {
    libraries_closed(1);
}

/// Checks whether libraries were closed since the last call. It is for programs in which nobody calls [`library_closed`].
pub fn notice_closed() {
    match closed::more() {
        0 => {}
        more => libraries_closed(more),
    }
}

fn libraries_closed(count: u64) {
    if let Some(table) = table() {
        table.rules.forget();
        table.header[word::CLOSED].fetch_add(count, Relaxed);
    }
}

#[cfg(test)]
mod tests;
