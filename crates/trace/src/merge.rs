//! Puts the events of all threads in one order. In: a trace. Out: calls of a [`Sink`], one for each event, and counts of the events that
//! did not fit.
//!
//! Each event has the time of the stamp before it. Allocations and frees of one address alternate. So if the address of an event is in the
//! wrong state, the event waits until another thread's event changes this state. It waits at most until a millisecond after the latest time
//! at which it can have happened. If no such event comes, the trace lacks one. A free of an unknown block is then counted as a stray and
//! left out. An allocation at the address of a live block frees this block first. But if the time of the live block's own allocation is not
//! known exactly, that allocation may be the later one. Then both blocks are live until the first free.
//!
//! A free of another thread's block, at a time that is not known exactly, may belong to a later block at this address. It is delayed until
//! another event needs the address or the thread, or until its latest possible time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::blocks::{Blocks, Removed};
use crate::coder::{AllocFunction, Event};
use crate::error::Result;
use crate::hash::{AddressMap, AddressSet};
use crate::reader::{Item, Stream, Trace};
use crate::stacks::StackId;

/// When and where an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Nanoseconds since the start. They never decrease from one event to the next.
    pub nanos: u64,
    /// The thread.
    pub thread: u32,
}

/// Receives the events in order.
pub trait Sink {
    /// The sink's record of a live block.
    type Block;
    /// Called before a thread's first event.
    fn began(&mut self, _at: At) {}
    /// The stack of the next block that is passed to [`allocated`](Self::allocated) or [`resized`](Self::resized); 0 if it has none. Called
    /// only for a trace with stacks.
    fn stack(&mut self, _stack: StackId) {}
    /// The address of the next call's block: the block of `allocated`, or the new address in `resized`.
    fn placed(&mut self, _address: u64) {}
    /// The address of the block that the next call ends: the block of `freed`, or the old address in `resized`.
    fn leaves(&mut self, _address: u64) {}
    /// A block was made.
    fn allocated(&mut self, at: At, how: AllocFunction, size: u64) -> Self::Block;
    /// A block was freed.
    fn freed(&mut self, at: At, block: Self::Block);
    /// A block got another size, and perhaps another address.
    fn resized(&mut self, at: At, block: Self::Block, size: u64) -> Self::Block;
    /// The process's RssAnon in KiB.
    fn resident(&mut self, _at: At, _kib: u64) {}
    /// A mark of the recorder.
    fn mark(&mut self, _at: At, _mark: u8) {}
    /// The thread has ended.
    fn ended(&mut self, _at: At) {}
    /// A block that is live after the last event, with its address.
    fn remains(&mut self, _address: u64, _block: Self::Block) {}
}

/// The counts of a merge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// The number of events, without stamps.
    pub events: u64,
    /// Frees of blocks that are not in the trace.
    pub strays: u64,
    /// Frees of blocks that were made before the window, or before the recorder was put into the process.
    pub before: u64,
    /// Blocks whose free is not in the trace. The merge finds them when their address is allocated again.
    pub lost_frees: u64,
    /// Blocks that were alive at the end.
    pub alive: u64,
    /// Bytes of the events that contain a stack.
    pub stack_bytes: u64,
    /// Length of the trace in nanoseconds.
    pub nanos: u64,
    /// The damage of the file, in words.
    pub damage: Vec<String>,
}

/// An event may have happened this many nanoseconds later than its stamps say, because the counters of two cores differ, and because a
/// processor may read its counter a little early.
const SLACK_NS: u64 = 1_000_000;

/// The longest delay of a free, in nanoseconds. A thread may lose its processor for this long between two of its events.
const PUT_OFF_NS: u64 = 10_000_000;

/// The longest wait of a free in a window, instead of [`SLACK_NS`]. Its block may be from before the window, and the address is soon
/// allocated again. After a longer wait, the merge would take the free for that of the later block.
const WINDOW_SLACK_NS: u64 = 2_000;

struct Lane<'a> {
    thread: u32,
    stream: Option<Stream<'a>>,
    begins: u64,
    head: Option<Item>,
    /// The realloc that has begun but not ended.
    resizing: Option<Resizing>,
    /// The tick at which this lane stops waiting.
    until: u64,
}

/// A live block. There are millions of them, so the structure is as small as possible.
struct Live<B> {
    block: B,
    /// The thread that allocated the block, and the latest tick of the allocation, in two halves.
    thread: u32,
    high: [u32; 2],
}

impl<B> Live<B> {
    fn new(block: B, thread: u32, high: u64) -> Self {
        Live { block, thread, high: [high as u32, (high >> 32) as u32] }
    }

    fn high(&self) -> u64 {
        u64::from(self.high[1]) << 32 | u64::from(self.high[0])
    }
}

/// A realloc between its begin and its end. The block itself is in `Merger::held`.
struct Resizing {
    address: u64,
    known: bool,
}

/// Merges all threads into `sink`.
pub fn merge<S: Sink>(trace: &Trace, sink: &mut S) -> Result<Merged> {
    let mut merger = Merger::<S>::new(trace);
    merger.run(trace, sink);
    Ok(merger.merged)
}

struct Merger<'a, S: Sink> {
    lanes: Vec<Lane<'a>>,
    held: Vec<Option<S::Block>>,
    /// The time of the next event of each lane that does not wait.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    live: Blocks<Live<S::Block>>,
    /// Blocks of addresses at which another thread's block is still live. Their allocation was placed too early: it belongs after the free
    /// of the other block.
    early: AddressMap<Live<S::Block>>,
    /// For each address, the lanes that wait for its free.
    for_free: AddressMap<Vec<usize>>,
    for_new: AddressMap<Vec<usize>>,
    /// For each address, the lanes whose free of it is delayed.
    put_off: AddressMap<Vec<usize>>,
    /// The time at which each waiting lane stops waiting, with the lane.
    patience: BTreeSet<(u64, usize)>,
    slack: u64,
    free_slack: u64,
    put_off_ticks: u64,
    /// The time of the latest event, in nanoseconds and in ticks.
    nanos: u64,
    low: u64,
    has_stacks: bool,
    /// The addresses that occurred in a window.
    seen: Option<AddressSet>,
    merged: Merged,
}

/// The result of a lane's next event.
enum Step {
    Done,
    /// The lane waits, at most until this tick.
    Waits(u64),
}

impl<'a, S: Sink> Merger<'a, S> {
    fn new(trace: &'a Trace) -> Self {
        let mut lanes: Vec<Lane> = trace
            .threads()
            .map(|(thread, begins)| Lane { thread, stream: None, begins, head: None, resizing: None, until: 0 })
            .collect();
        lanes.sort_by_key(|lane| (lane.begins, lane.thread));
        let heads = lanes.iter().enumerate().map(|(at, lane)| Reverse((lane.begins, at))).collect();
        let held = lanes.iter().map(|_| None).collect();
        let merged = Merged { damage: trace.damage().into_iter().map(String::from).collect(), ..Merged::default() };
        Merger {
            lanes,
            held,
            heads,
            live: Blocks::default(),
            early: AddressMap::default(),
            for_free: AddressMap::default(),
            for_new: AddressMap::default(),
            put_off: AddressMap::default(),
            patience: BTreeSet::new(),
            slack: (SLACK_NS as f64 / trace.header.tick_ns) as u64,
            free_slack: (if trace.lacks_begin() { WINDOW_SLACK_NS } else { SLACK_NS } as f64 / trace.header.tick_ns)
                as u64,
            put_off_ticks: (PUT_OFF_NS as f64 / trace.header.tick_ns) as u64,
            nanos: 0,
            low: 0,
            has_stacks: trace.header.stacks > 0,
            seen: trace.lacks_begin().then(AddressSet::default),
            merged,
        }
    }

    fn run(&mut self, trace: &'a Trace, sink: &mut S) {
        loop {
            let next = self.heads.peek().map(|Reverse((time, _))| *time);
            let forced = self.patience.first().copied().filter(|(until, _)| next.is_none_or(|next| *until < next));
            let lane = match forced.map(|forced| self.put_off_or(forced)) {
                Some((until, lane)) => {
                    self.patience.remove(&(until, lane));
                    self.leave(lane);
                    lane
                }
                None => match self.heads.pop() {
                    Some(Reverse((_, lane))) => lane,
                    None => break,
                },
            };
            self.lane(trace, lane, forced.is_some(), sink);
        }
        self.merged.lost_frees += self.early.len() as u64;
        self.merged.alive = (self.live.len() + self.early.len()) as u64 + self.held.iter().flatten().count() as u64;
        for (address, live) in self.live.drain().chain(self.early.drain()) {
            sink.remains(address, live.block);
        }
        for (lane, held) in self.lanes.iter().zip(&mut self.held) {
            if let (Some(resizing), Some(block)) = (&lane.resizing, held.take()) {
                sink.remains(resizing.address, block);
            }
        }
        self.merged.nanos = self.nanos;
    }

    /// Executes events of one lane, until another lane has an earlier event.
    fn lane(&mut self, trace: &'a Trace, lane: usize, mut forced: bool, sink: &mut S) {
        loop {
            if self.lanes[lane].head.is_none() {
                let this = &mut self.lanes[lane];
                let thread = this.thread;
                if this.stream.is_none() && this.begins != u64::MAX {
                    this.stream = Some(trace.stream(thread));
                    this.begins = u64::MAX;
                    let nanos = self.nanos;
                    sink.began(At { nanos, thread });
                }
                let Some(stream) = &mut this.stream else { return };
                this.head = stream.next();
                if this.head.is_none() {
                    self.merged.stack_bytes += stream.stack_bytes();
                    if let Some(damage) = stream.damage() {
                        self.merged.damage.push(format!("thread {thread}: {damage}"));
                    }
                    this.stream = None;
                    return;
                }
            }
            let item = self.lanes[lane].head.expect("just read");
            // An earlier event of another lane goes first, and so does a lane that stops waiting before this event.
            let is_late = self.heads.peek().is_some_and(|Reverse((time, _))| *time < item.low)
                || self.patience.first().is_some_and(|(until, _)| *until < item.low);
            if !forced && is_late {
                self.heads.push(Reverse((item.low, lane)));
                return;
            }
            // Events between two stamps have the same time.
            if item.low > self.low {
                self.low = item.low;
                self.nanos = self.nanos.max(trace.header.nanos(item.low));
            }
            match self.execute(lane, item, forced, sink) {
                Step::Done => self.lanes[lane].head = None,
                Step::Waits(until) => {
                    self.lanes[lane].until = until;
                    self.patience.insert((until, lane));
                    return;
                }
            }
            forced = false;
        }
    }

    fn execute(&mut self, lane: usize, item: Item, forced: bool, sink: &mut S) -> Step {
        let at = At { nanos: self.nanos, thread: self.lanes[lane].thread };
        match item.event {
            Event::New { how, address, size } => {
                if self.live.contains(address) {
                    if !forced {
                        self.for_free.entry(address).or_default().push(lane);
                        self.wake_put_off(address);
                        return Step::Waits(item.high.max(item.low).saturating_add(self.slack));
                    }
                    self.displace(address, at, item.low, sink);
                }
                let old = match how {
                    AllocFunction::Resized => {
                        let from = self.lanes[lane].resizing.take().map(|resizing| resizing.address);
                        from.and_then(|from| Some((from, self.held[lane].take()?)))
                    }
                    _ => None,
                };
                if self.has_stacks {
                    sink.stack(item.stack);
                }
                sink.placed(address);
                let block = match old {
                    Some((from, old)) => {
                        sink.leaves(from);
                        sink.resized(at, old, size)
                    }
                    None => sink.allocated(at, how, size),
                };
                self.live.insert(address, Live::new(block, at.thread, item.high));
                self.seen.as_mut().map(|seen| seen.insert(address));
                self.wake_new(address);
            }
            Event::Free { address } | Event::Resize { address } => {
                let is_exact = forced || item.high <= item.low || self.for_free.contains_key(&address);
                let live = self.live.remove_if(address, |live| is_exact || live.thread == at.thread);
                let live = match live {
                    // The free may belong to a later block at this address, and no event of another lane waits for the address.
                    Removed::Left => {
                        self.put_off.entry(address).or_default().push(lane);
                        return Step::Waits(item.high.min(item.low.saturating_add(self.put_off_ticks)));
                    }
                    Removed::None if !forced => {
                        self.for_new.entry(address).or_default().push(lane);
                        return Step::Waits(item.high.max(item.low).saturating_add(self.free_slack));
                    }
                    Removed::None => None,
                    Removed::Block(live) => Some(live),
                };
                let block = live.map(|live| live.block);
                let known = block.is_some();
                let is_first = !known && self.seen.as_mut().is_some_and(|seen| seen.insert(address));
                self.merged.strays += u64::from(!known && !is_first);
                self.merged.before += u64::from(is_first);
                if matches!(item.event, Event::Resize { .. }) {
                    // If the realloc before it has no end, its block is treated as freed.
                    self.free_held(lane, at, sink);
                    self.lanes[lane].resizing = Some(Resizing { address, known });
                    self.held[lane] = block;
                } else if let Some(block) = block {
                    sink.leaves(address);
                    sink.freed(at, block);
                }
                match self.early.remove(&address) {
                    Some(early) => {
                        self.live.insert(address, early);
                        self.wake_new(address);
                    }
                    None if known => {
                        self.wake_put_off(address);
                        self.wake_free(address);
                    }
                    None => {}
                }
            }
            Event::ResizeFailed => {
                if let Some(resizing) = self.lanes[lane].resizing.take().filter(|resizing| resizing.known)
                    && let Some(block) = self.held[lane].take()
                {
                    let live = Live::new(block, at.thread, item.high);
                    if let Some(other) = self.live.insert(resizing.address, live) {
                        self.merged.lost_frees += 1;
                        sink.leaves(resizing.address);
                        sink.freed(at, other.block);
                    }
                    self.wake_new(resizing.address);
                }
            }
            Event::ResizeFreed => self.free_held(lane, at, sink),
            Event::Resident(kib) => sink.resident(at, kib),
            Event::Mark(mark) => sink.mark(at, mark),
            Event::End => sink.ended(at),
            Event::Stamp | Event::Stack(_) => {}
        }
        self.merged.events += 1;
        Step::Done
    }

    /// Handles an allocation at an address whose block is still live.
    fn displace(&mut self, address: u64, at: At, low: u64, sink: &mut S) {
        let old = self.live.remove(address).expect("a block that is alive");
        let lost = match old.thread != at.thread && old.high() >= low {
            true => self.early.insert(address, old),
            false => Some(old),
        };
        if let Some(lost) = lost {
            self.merged.lost_frees += 1;
            sink.leaves(address);
            sink.freed(at, lost.block);
        }
    }

    /// Frees the block of a realloc that did not end.
    fn free_held(&mut self, lane: usize, at: At, sink: &mut S) {
        if let (Some(resizing), Some(block)) = (self.lanes[lane].resizing.take(), self.held[lane].take()) {
            sink.leaves(resizing.address);
            sink.freed(at, block);
        }
    }

    /// Chooses the lane that continues instead of `forced`, whose wait is over. If frees are delayed, it is the lane of the first of them,
    /// because the event that `forced` needs may come after this free.
    fn put_off_or(&self, forced: (u64, usize)) -> (u64, usize) {
        let is_put_off = |lane: usize| self.put_off.values().any(|lanes| lanes.contains(&lane));
        let first = || self.patience.iter().copied().find(|(_, lane)| is_put_off(*lane));
        if self.put_off.is_empty() { forced } else { first().unwrap_or(forced) }
    }

    fn wake_put_off(&mut self, address: u64) {
        if !self.put_off.is_empty()
            && let Some(lanes) = self.put_off.remove(&address)
        {
            self.wake(lanes);
        }
    }

    fn wake_free(&mut self, address: u64) {
        if !self.for_free.is_empty()
            && let Some(lanes) = self.for_free.remove(&address)
        {
            self.wake(lanes);
        }
    }

    fn wake_new(&mut self, address: u64) {
        if !self.for_new.is_empty()
            && let Some(lanes) = self.for_new.remove(&address)
        {
            self.wake(lanes);
        }
    }

    /// Makes these lanes try their events again.
    fn wake(&mut self, lanes: Vec<usize>) {
        for lane in lanes {
            self.forget(lane);
            let low = self.lanes[lane].head.map_or(0, |item| item.low);
            self.heads.push(Reverse((low, lane)));
        }
    }

    /// Removes the time limit of the lane's wait.
    fn forget(&mut self, lane: usize) {
        self.patience.remove(&(self.lanes[lane].until, lane));
    }

    /// Ends the lane's wait for its address.
    fn leave(&mut self, lane: usize) {
        let Some(item) = self.lanes[lane].head else { return };
        let (waiting, address) = match item.event {
            Event::New { address, .. } => ([Some(&mut self.for_free), None], address),
            Event::Free { address } | Event::Resize { address } => {
                ([Some(&mut self.for_new), Some(&mut self.put_off)], address)
            }
            _ => return,
        };
        for waiting in waiting.into_iter().flatten() {
            if let Some(lanes) = waiting.get_mut(&address) {
                lanes.retain(|waiting| *waiting != lane);
                if lanes.is_empty() {
                    waiting.remove(&address);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
