//! Replaying a trace with the allocator of this process. In: a prepared trace. Out: calls of the allocator by threads
//! that live as those of the program, and stops at the moments at which meters are read.
//!
//! Nothing of the replay counts as the allocator's memory: operations lie in a mapped file and are dropped behind the
//! cursor, the table of blocks and the counters lie in shared memory. So RssAnon of the process is the allocator's, the
//! threads' stacks and what the process had before. Nothing here calls the allocator but the operations.

mod event_count;
mod global;
mod noted;
mod pool;
mod worker;

pub use crate::layout::Moment;
pub use crate::mapped::Prepared;
pub use crate::placed::Live;
pub use global::Global;
pub use noted::{Noted, Notes};
pub use pool::Pool;

use std::alloc::GlobalAlloc;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::format::Marks;
use crate::layout::Mark;
use crate::mapped::{Anonymous, LaneRecord};
use allocanary_kernel::sys;
use event_count::{Announced, EventCount};
use worker::{Entry, Lane, play, work};

/// Epochs that may be open at one time: threads drift apart by this many epochs at most.
const AHEAD: u32 = 4;
/// The stack of a replaying thread.
const STACK: usize = 256 << 10;

/// Slots and epochs have as many event counts each, which several of them share.
const EACH: usize = 1024;
/// The event count of what no thread's operations wait for: the end.
const OVER: usize = 2 * EACH;

/// The event count of a change of a slot.
#[inline(always)]
fn of_slot(slot: u32) -> usize {
    slot as usize % EACH
}

/// The event count of an epoch that may begin.
fn of_epoch(epoch: u32) -> usize {
    EACH + epoch as usize % EACH
}

/// How to replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOptions {
    /// Speed: 1 keeps the program's times, 0 goes as fast as it can.
    pub pace: f64,
    /// Write every byte of a block; otherwise one byte of each of its pages.
    pub touch_full: bool,
}

/// The replay while it stops: no thread works.
pub struct Stop<'a> {
    /// Where it stops.
    pub moment: Moment,
    /// Live bytes.
    pub live: u64,
    table: &'a [Entry],
    /// The addresses of the pool.
    region: Option<Range<u64>>,
}

impl Stop<'_> {
    /// What lives.
    pub fn blocks(&self) -> impl Iterator<Item = Live> {
        self.table.iter().enumerate().filter_map(|(slot, entry)| {
            let (address, size) = entry.live()?;
            Some(Live { slot: slot as u32, address, size })
        })
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replayed {
    /// Operations.
    pub operations: u64,
    /// The wall time of the replay, without the pauses at its stops, where memory is read.
    pub active: Duration,
    /// Blocks whose first byte was compared with what was written to it.
    pub verified: u64,
    /// The most RssAnon that was seen from ready to the end of the load, or in the whole replay where the trace has no such
    /// marks; in bytes. It is read every millisecond while the first thread waits or begins an epoch, whenever it has asked for
    /// 1 MiB, and at each stop.
    pub most_anon: u64,
    /// The highest resident heap, read as `most_anon` is: from the first operation until a service is idle, or in the whole replay
    /// where the trace has no such mark; in bytes.
    pub heap_peak: u64,
    /// How often a thread other than the first one slept until another one woke it.
    pub waits: u64,
}

/// What all threads of a replay share.
pub(crate) struct Shared<'a, A> {
    allocator: &'a A,
    /// Where the blocks lie that the prepared form has elsewhere.
    pool: Option<&'a Pool<'a>>,
    prepared: &'a Prepared,
    options: ReplayOptions,
    table: &'a [Entry],
    /// Threads that have not finished each epoch.
    remaining: &'a [AtomicU32],
    /// All epochs before this one are finished.
    completed: AtomicU32,
    /// The last epoch that a thread may begin for now: they all wait there for the next stop.
    limit: AtomicU32,
    /// 1 once threads without an end shall end.
    over: AtomicU32,
    /// What failed: 0 nothing, 1 the prepared trace, 2 no memory, 3 a block was overwritten, 4 no thread.
    failed: AtomicU32,
    verified: AtomicU64,
    begun: Instant,
    /// Nanoseconds of the stops.
    paused: AtomicU64,
    /// How often a thread slept until another one woke it.
    waits: AtomicU64,
    /// What threads wait for.
    events: &'a [EventCount; OVER + 1],
    /// Where the first thread waits, or has waited last.
    first_waits: AtomicU32,
}

/// Executes a prepared trace, the program's first thread on this one. `stop` is called at each moment, while no thread works.
pub fn run<A: GlobalAlloc + Sync>(
    prepared: &Prepared,
    allocator: &A,
    options: ReplayOptions,
    stop: &mut dyn FnMut(&Stop<'_>),
) -> Result<Replayed> {
    run_with(prepared, allocator, None, options, stop)
}

/// As [`run`], with the blocks that the prepared form has elsewhere in a pool. Without a pool they are like all others.
pub fn run_with<A: GlobalAlloc + Sync>(
    prepared: &Prepared,
    allocator: &A,
    pool: Option<&Pool<'_>>,
    options: ReplayOptions,
    stop: &mut dyn FnMut(&Stop<'_>),
) -> Result<Replayed> {
    let no_memory = || Error::new("no memory for the replay's tables");
    let table = Anonymous::<Entry>::new(prepared.slots).ok_or_else(no_memory)?;
    let remaining = Anonymous::<AtomicU32>::new(prepared.epochs as usize).ok_or_else(no_memory)?;
    for (epoch, counter) in remaining.items().iter().enumerate() {
        counter.store(prepared.remaining(epoch), SeqCst);
    }
    let ending = Anonymous::<AtomicU32>::new(prepared.epochs as usize).ok_or_else(no_memory)?;
    let events = Anonymous::<EventCount>::new(OVER + 1).ok_or_else(no_memory)?;
    event_count::register();
    let shared = Shared {
        allocator,
        pool,
        prepared,
        options,
        table: table.items(),
        remaining: remaining.items(),
        completed: AtomicU32::new(0),
        limit: AtomicU32::new(u32::MAX),
        over: AtomicU32::new(0),
        failed: AtomicU32::new(0),
        verified: AtomicU64::new(0),
        begun: Instant::now(),
        paused: AtomicU64::new(0),
        waits: AtomicU64::new(0),
        events: events.items().try_into().expect("as many"),
        first_waits: AtomicU32::new(OVER as u32),
    };
    let lanes = Anonymous::<Lane>::new(prepared.lanes).ok_or_else(no_memory)?;
    shared.finish_empty();
    let drop_pages = || {
        table.drop_pages();
        remaining.drop_pages();
        ending.drop_pages();
    };
    let mut records = prepared.lane_records();
    let first = records.next();
    let watch = Watch { most: 0, highest: 0, next: shared.begun, is_over: false, is_idle: false };
    let mut conductor = Conductor {
        shared: &shared,
        lanes: lanes.items(),
        started: 1,
        ending: ending.items(),
        joined: 0,
        records: records.peekable(),
        mark: 0,
        watch,
        stop,
        drop_pages,
        error: None,
    };
    conductor.set_limit();
    // The program's first thread is this one: allocators treat it apart, as glibc's with its heap.
    if let Some(first) = first {
        play(&shared, &first, Some(&mut || conductor.step()));
    }
    loop {
        let announced = shared.announce(OVER, true);
        if conductor.is_over() {
            break;
        }
        if !conductor.step() {
            shared.events[OVER].wait(announced, Some(EVERY));
        }
    }
    let Conductor { error, watch, .. } = conductor;
    shared.over.store(1, SeqCst);
    shared.events[OVER].notify();
    lanes.items().iter().for_each(Lane::join);
    if let Some(error) = error {
        return Err(error);
    }
    let active = shared.begun.elapsed().saturating_sub(Duration::from_nanos(shared.paused.load(SeqCst)));
    let failed = match shared.failed.load(SeqCst) {
        0 => None,
        1 => Some("the prepared trace is damaged: remove it, and it is made again"),
        2 => Some("the allocator had no memory"),
        4 => Some("a thread could not be started"),
        _ => Some("a block was overwritten: the allocator gave one place to two blocks"),
    };
    match failed {
        Some(problem) => Err(Error::new(problem)),
        None => Ok(Replayed {
            operations: prepared.operations,
            active,
            verified: shared.verified.load(SeqCst),
            most_anon: watch.most,
            heap_peak: watch.highest,
            waits: shared.waits.load(SeqCst),
        }),
    }
}

/// The highest RssAnon that was read in this process. The operations and tables of the replay itself are not in it: they lie in
/// a mapped file and in shared memory. What an allocator takes when it starts is included, because the recorded program has that too.
struct Watch {
    /// From ready to the end of the load.
    most: u64,
    /// From the first operation until a service is idle.
    highest: u64,
    next: Instant,
    is_over: bool,
    is_idle: bool,
}

/// Time between two readings.
const EVERY: Duration = Duration::from_millis(1);

impl Watch {
    /// Reads if it is time. Nothing is allocated.
    fn look(&mut self) {
        if self.is_idle || Instant::now() < self.next {
            return;
        }
        let anonymous = sys::anonymous_pages() * sys::page_bytes();
        self.highest = self.highest.max(anonymous);
        if !self.is_over {
            self.most = self.most.max(anonymous);
        }
        self.next = Instant::now() + EVERY;
    }

    /// A mark is reached.
    fn mark(&mut self, what: u32) {
        self.next = Instant::now();
        // A program that marks itself may do so after the end of the search as well.
        if what == 0 && !self.is_over {
            self.most = 0;
        }
        self.look();
        self.is_over |= what == 3;
        // A program that is no service has its peak at any time, also after its longest wait.
        self.is_idle |= what == 2 && self.is_over;
    }
}

/// Starts threads when their time comes, and stops all for the marks. It has no thread: that of the first lane does a step whenever
/// it waits or begins an epoch.
struct Conductor<'a, A, R: Iterator<Item = LaneRecord>, D> {
    shared: &'a Shared<'a, A>,
    lanes: &'a [Lane],
    /// Lanes that have begun, the first one among them.
    started: usize,
    /// For each epoch: the index, plus 1, of the lane that was started last of those that end there; 0 if none ends
    /// there.
    ending: &'a [AtomicU32],
    /// All lanes that end before this epoch have been joined.
    joined: u32,
    records: Peekable<R>,
    /// The next mark.
    mark: usize,
    watch: Watch,
    stop: &'a mut dyn FnMut(&Stop<'_>),
    drop_pages: D,
    /// A thread could not be started.
    error: Option<Error>,
}

impl<A: GlobalAlloc + Sync, R: Iterator<Item = LaneRecord>, D: Fn()> Conductor<'_, A, R, D> {
    fn next_mark(&self) -> Option<Mark> {
        (self.mark < self.shared.prepared.marks).then(|| self.shared.prepared.mark(self.mark))
    }

    /// No thread goes beyond the next mark.
    fn set_limit(&self) {
        let shared = self.shared;
        shared.limit.store(self.next_mark().map_or(u32::MAX, |mark| mark.epoch), SeqCst);
        let completed = shared.completed.load(SeqCst);
        (completed..completed.saturating_add(AHEAD)).for_each(|epoch| shared.events[of_epoch(epoch)].notify());
    }

    /// Whether nothing is left to do, or the replay has failed.
    fn is_over(&mut self) -> bool {
        let shared = self.shared;
        let done = self.mark >= shared.prepared.marks && self.records.peek().is_none();
        shared.failed.load(SeqCst) != 0 || (done && shared.completed.load(SeqCst) >= shared.prepared.epochs)
    }

    /// Does what is due: one thing. False where nothing was.
    fn step(&mut self) -> bool {
        self.watch.look();
        let shared = self.shared;
        let completed = shared.completed.load(SeqCst);
        if let Some(mark) = self.next_mark().filter(|mark| completed > mark.epoch) {
            let stopped = Instant::now();
            (self.drop_pages)();
            self.watch.mark(mark.what);
            if let Some(moment) = Moment::of(mark.what) {
                let region = shared.pool.map(Pool::region);
                (self.stop)(&Stop { moment, live: mark.live, table: shared.table, region });
            }
            shared.paused.fetch_add(stopped.elapsed().as_nanos() as u64, SeqCst);
            self.mark += 1;
            self.set_limit();
            return true;
        }
        let Some(record) = self.records.peek().copied().filter(|record| shared.may_begin(record.first)) else {
            return false;
        };
        // Those that ended before in the program end before here: an allocator reuses what they leave. Until they have, this
        // thread goes on: they may wait for a block of its own.
        let ending = self.ending;
        let lane = |at: &AtomicU32| self.lanes.get((at.load(SeqCst) as usize).wrapping_sub(1));
        let of = |epochs: Range<u32>| epochs.filter_map(|epoch| ending.get(epoch as usize));
        if of(completed.max(self.joined)..record.first).any(|last| lane(last).is_some()) {
            return false;
        }
        for last in of(self.joined..record.first) {
            std::iter::successors(lane(last), |ended| lane(&ended.next)).for_each(Lane::join);
        }
        self.joined = self.joined.max(record.first);
        let next = &self.lanes[self.started];
        match next.start(shared, record, work::<A>, STACK) {
            Ok(()) => {
                self.started += 1;
                if let Some(last) = ending.get(record.last as usize) {
                    next.next.store(last.swap(self.started as u32, SeqCst), SeqCst);
                }
            }
            Err(error) => {
                self.error = Some(error);
                shared.fail(4);
            }
        }
        self.records.next();
        true
    }
}

impl<A> Shared<'_, A> {
    /// Whether an epoch may begin.
    fn may_begin(&self, epoch: u32) -> bool {
        epoch < self.completed.load(SeqCst).saturating_add(AHEAD) && epoch <= self.limit.load(SeqCst)
    }

    /// Announces that this thread is going to wait for an event. The first thread waits for each epoch's end as well.
    fn announce(&self, place: usize, is_first: bool) -> Announced {
        if is_first {
            self.first_waits.store(place as u32, SeqCst);
        }
        self.events[place].announce()
    }

    /// A thread has finished an epoch.
    fn finish(&self, epoch: u32) {
        let Some(counter) = self.remaining.get(epoch as usize) else { return };
        if counter.fetch_sub(1, SeqCst) == 1 {
            self.finish_empty();
        }
    }

    /// Counts the epochs that every thread has finished.
    fn finish_empty(&self) {
        loop {
            let completed = self.completed.load(SeqCst);
            match self.remaining.get(completed as usize) {
                Some(counter) if counter.load(SeqCst) == 0 => {
                    if self.completed.compare_exchange(completed, completed + 1, SeqCst, SeqCst).is_ok() {
                        self.events[of_epoch(completed.saturating_add(AHEAD))].notify();
                        self.events[self.first_waits.load(SeqCst) as usize].notify();
                    }
                }
                _ => return,
            }
        }
    }

    /// Ends the replay; false, as what fails returns.
    #[cold]
    fn fail(&self, why: u32) -> bool {
        let _ = self.failed.compare_exchange(0, why, SeqCst, SeqCst);
        self.events.iter().for_each(EventCount::notify);
        false
    }
}

/// Prepares a trace in a child process, so that this one's memory stays as it is, unless it is prepared already. Must be
/// called while the process has one thread.
pub fn prepare_apart(trace: &std::path::Path, asked: Marks) -> Result<Prepared> {
    if let Some(found) = crate::prepare::find(trace, asked)? {
        return Ok(found);
    }
    let mut status = 0;
    // SAFETY: the process has one thread, so the child finds every lock free; it ends without running destructors.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let prepared = std::panic::catch_unwind(|| crate::prepare::prepare(trace, asked));
            libc::_exit(i32::from(!matches!(prepared, Ok(Ok(_)))));
        }
        while child > 0 && libc::waitpid(child, &mut status, 0) < 0 && *libc::__errno_location() == libc::EINTR {}
    }
    if let Some(made) = crate::prepare::find(trace, asked)? {
        return Ok(made);
    }
    // Here the error has words.
    crate::prepare::prepare(trace, asked)
}

#[cfg(test)]
mod tests;
