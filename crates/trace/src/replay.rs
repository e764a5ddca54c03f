//! Replays a trace with the allocator of this process. In: a prepared trace. Out: calls of the allocator, by threads that begin and end as
//! those of the program, and stops at the moments at which meters are read.
//!
//! The replay's own memory must not count as the allocator's. Operations are in a mapped file whose pages are dropped after use, and the
//! table of blocks and the counters are in shared memory. So the RssAnon of the process is the memory of the allocator, the threads'
//! stacks, and the memory that the process had before. Only the operations call the allocator.

mod event_count;
mod global;
mod noted;
mod pool;
mod worker;

pub use crate::layout::ReplayMoment;
pub use crate::mapped::PreparedTrace;
pub use crate::placed::PlacedBlock;
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
use allocanary_sys::sys;
use event_count::{Announced, EventCount};
use worker::{Entry, Lane, play, work};

/// The maximum number of epochs that are open at one time. So threads are at most this many epochs apart.
const AHEAD: u32 = 4;
/// The size of a replaying thread's stack, in bytes.
const STACK: usize = 256 << 10;

/// The number of event counts for slots, and of those for epochs. Several slots or epochs share one.
const EACH: usize = 1024;
/// The number of the event count for the end of the replay. No operation waits for it.
const OVER: usize = 2 * EACH;

/// The number of the event count for changes of a slot.
#[inline(always)]
fn of_slot(slot: u32) -> usize {
    slot as usize % EACH
}

/// The number of the event count for the beginning of an epoch.
fn of_epoch(epoch: u32) -> usize {
    EACH + epoch as usize % EACH
}

/// The options of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOptions {
    /// The speed: 1 keeps the program's times, 0 goes as fast as it can.
    pub pace: f64,
    /// Whether to write every byte of a block. Otherwise one byte of each of its pages is written.
    pub touch_full: bool,
}

/// A replay at a stop, while no thread works.
pub struct ReplayStop<'a> {
    /// The moment at which it stops.
    pub moment: ReplayMoment,
    /// Live bytes.
    pub live: u64,
    table: &'a [Entry],
    /// The addresses of the pool.
    region: Option<Range<u64>>,
}

impl ReplayStop<'_> {
    /// The blocks that live at this stop.
    pub fn blocks(&self) -> impl Iterator<Item = PlacedBlock> {
        self.table.iter().enumerate().filter_map(|(slot, entry)| {
            let (address, size) = entry.live()?;
            Some(PlacedBlock { slot: slot as u32, address, size })
        })
    }
}

/// The result of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayResult {
    /// The number of operations.
    pub operations: u64,
    /// The wall time of the replay, without the pauses at its stops, where memory is read.
    pub active: Duration,
    /// The number of blocks whose first byte was compared with the written value.
    pub verified: u64,
    /// The highest RssAnon between ready and the end of the load, in bytes. If the trace has no such marks, it is that of the whole replay.
    /// It is read every millisecond while the first thread waits or begins an epoch, after each MiB that the first thread requests, and at
    /// each stop.
    pub most_anon: u64,
    /// The highest resident heap from the first operation until a service is idle, in bytes. If the trace has no such mark, it is that of
    /// the whole replay. It is read like `most_anon`.
    pub heap_peak: u64,
    /// How often a thread other than the first one slept until another one woke it.
    pub waits: u64,
}

/// The state that all threads of a replay share.
pub(crate) struct Shared<'a, A> {
    allocator: &'a A,
    /// The pool for the blocks that the prepared form puts in a pool.
    pool: Option<&'a Pool<'a>>,
    prepared: &'a PreparedTrace,
    options: ReplayOptions,
    table: &'a [Entry],
    /// For each epoch, the number of threads that have not finished it.
    remaining: &'a [AtomicU32],
    /// The first epoch that is not finished.
    completed: AtomicU32,
    /// The last epoch that a thread may begin before the next stop.
    limit: AtomicU32,
    /// 1 if threads whose end is not in the trace must end now.
    over: AtomicU32,
    /// The kind of failure: 0 none, 1 the prepared trace is damaged, 2 no memory, 3 a block was overwritten, 4 a thread
    /// could not be started.
    failed: AtomicU32,
    verified: AtomicU64,
    begun: Instant,
    /// The nanoseconds that the stops took.
    paused: AtomicU64,
    /// How often a thread slept until another one woke it.
    waits: AtomicU64,
    /// The event counts for which threads wait.
    events: &'a [EventCount; OVER + 1],
    /// The event count for which the first thread waits, or waited last.
    first_waits: AtomicU32,
}

/// Executes a prepared trace. The calling thread executes the operations of the program's first thread. `stop` is called at each moment,
/// while no thread works.
pub fn run<A: GlobalAlloc + Sync>(
    prepared: &PreparedTrace,
    allocator: &A,
    options: ReplayOptions,
    stop: &mut dyn FnMut(&ReplayStop<'_>),
) -> Result<ReplayResult> {
    run_with(prepared, allocator, None, options, stop)
}

/// Like [`run`], with a pool for the blocks that the prepared form marks. Without a pool, these blocks are allocated like
/// all others.
pub fn run_with<A: GlobalAlloc + Sync>(
    prepared: &PreparedTrace,
    allocator: &A,
    pool: Option<&Pool<'_>>,
    options: ReplayOptions,
    stop: &mut dyn FnMut(&ReplayStop<'_>),
) -> Result<ReplayResult> {
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
    // This thread executes the operations of the program's first thread, because allocators treat the first thread differently: glibc gives
    // it the data segment.
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
        None => Ok(ReplayResult {
            operations: prepared.operations,
            active,
            verified: shared.verified.load(SeqCst),
            most_anon: watch.most,
            heap_peak: watch.highest,
            waits: shared.waits.load(SeqCst),
        }),
    }
}

/// The highest RssAnon that was read in this process. The replay's own operations and tables are not part of it, because they are in a
/// mapped file and in shared memory. The memory that an allocator takes at its start is part of it, because the recorded program has this
/// memory too.
struct Watch {
    /// The highest value from ready to the end of the load.
    most: u64,
    /// The highest value from the first operation until a service is idle.
    highest: u64,
    next: Instant,
    is_over: bool,
    is_idle: bool,
}

/// The time between two readings.
const EVERY: Duration = Duration::from_millis(1);

impl Watch {
    /// Reads RssAnon if it is time. Allocates nothing.
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

    /// Called when the replay reaches a mark.
    fn mark(&mut self, what: u32) {
        self.next = Instant::now();
        // A program may set this mark itself, perhaps after the end of the search for the peak.
        if what == 0 && !self.is_over {
            self.most = 0;
        }
        self.look();
        self.is_over |= what == 3;
        // A program that is not a service may have its peak at any time, even after its longest wait.
        self.is_idle |= what == 2 && self.is_over;
    }
}

/// Starts threads at their times, and stops all threads for the marks. It has no thread of its own. Whenever the thread of the first lane
/// waits or begins an epoch, this thread does a step of the work.
struct Conductor<'a, A, R: Iterator<Item = LaneRecord>, D> {
    shared: &'a Shared<'a, A>,
    lanes: &'a [Lane],
    /// The number of lanes that have begun, including the first one.
    started: usize,
    /// For each epoch, the lane that was started last of those that end in it: the lane's index plus 1, or 0 if no lane ends in the epoch.
    ending: &'a [AtomicU32],
    /// All lanes that end before this epoch were joined.
    joined: u32,
    records: Peekable<R>,
    /// The number of the next mark.
    mark: usize,
    watch: Watch,
    stop: &'a mut dyn FnMut(&ReplayStop<'_>),
    drop_pages: D,
    /// The error, if a thread could not be started.
    error: Option<Error>,
}

impl<A: GlobalAlloc + Sync, R: Iterator<Item = LaneRecord>, D: Fn()> Conductor<'_, A, R, D> {
    fn next_mark(&self) -> Option<Mark> {
        (self.mark < self.shared.prepared.marks).then(|| self.shared.prepared.mark(self.mark))
    }

    /// Sets the limit so that no thread goes beyond the next mark.
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

    /// Does one thing that is due. Returns false if nothing is due.
    fn step(&mut self) -> bool {
        self.watch.look();
        let shared = self.shared;
        let completed = shared.completed.load(SeqCst);
        if let Some(mark) = self.next_mark().filter(|mark| completed > mark.epoch) {
            let stopped = Instant::now();
            (self.drop_pages)();
            self.watch.mark(mark.what);
            if let Some(moment) = ReplayMoment::of(mark.what) {
                let region = shared.pool.map(Pool::region);
                (self.stop)(&ReplayStop { moment, live: mark.live, table: shared.table, region });
            }
            shared.paused.fetch_add(stopped.elapsed().as_nanos() as u64, SeqCst);
            self.mark += 1;
            self.set_limit();
            return true;
        }
        let Some(record) = self.records.peek().copied().filter(|record| shared.may_begin(record.first)) else {
            return false;
        };
        // A thread that ended before this one began in the program must also end first here, because an allocator reuses its memory. Until
        // then, the first thread continues with its own operations, because the ending thread may wait for one of the first thread's
        // blocks.
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
    fn may_begin(&self, epoch: u32) -> bool {
        epoch < self.completed.load(SeqCst).saturating_add(AHEAD) && epoch <= self.limit.load(SeqCst)
    }

    /// Announces that this thread is going to wait for an event. The end of an epoch wakes the first thread too.
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

    /// Records a failure, which ends the replay. Always returns false, so that an operation can return this result.
    #[cold]
    fn fail(&self, why: u32) -> bool {
        let _ = self.failed.compare_exchange(0, why, SeqCst, SeqCst);
        self.events.iter().for_each(EventCount::notify);
        false
    }
}

/// Prepares a trace in a child process, so that this process's memory does not change. Does nothing if the trace is already prepared. It
/// must be called while the process has one thread.
pub fn prepare_apart(trace: &std::path::Path, asked: Marks) -> Result<PreparedTrace> {
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
    // The child cannot pass on its error. So the trace is prepared again here, which returns the error.
    crate::prepare::prepare(trace, asked)
}

#[cfg(test)]
mod tests;
