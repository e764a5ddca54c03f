//! Writes the prepared form. In: events in merged order. Out: runs of operations thread by thread, then tables.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};

use super::Lane;
use super::elsewhere::Elsewhere;
use super::slots::FreeSlots;
use crate::coder::AllocFunction;
use crate::format::Marks;
use crate::layout::{HEADER, MAGIC, Mark, Op, kind};
use crate::merge::{At, Merged, Sink};
use crate::origin::Origin;
use crate::reader::Trace;

/// The maximum number of operations in one epoch.
const EPOCH: u32 = 256;
/// An epoch also ends if the program did nothing for this many nanoseconds.
const GAP: u64 = 1_000_000;
/// A program that waits for more than this many nanoseconds is idle.
const IDLE: u64 = 20_000_000;
/// log2 of the alignment of a block from malloc, for which no alignment is requested. With malloc's own alignment of 16, mimalloc's
/// function for aligned blocks would be called, which takes a larger block in most size classes.
const PLAIN: u8 = 0;
/// The maximum number of operations in one run.
const RUN: usize = 2048;

pub(super) struct Block {
    slot: u32,
    generation: u16,
    log2: u8,
    size: u64,
}

#[derive(Default)]
struct Growing {
    lane: Lane,
    pending: Vec<Op>,
    /// The epoch that the lane's last `EPOCH` operation begins.
    epoch: Option<u32>,
}

/// The end of an epoch: the live bytes there, and the number of calls of the allocator before it.
#[derive(Clone, Copy, Default)]
struct End {
    epoch: u32,
    live: u64,
    events: u64,
}

impl End {
    fn mark(self, what: u32) -> Mark {
        Mark { epoch: self.epoch, what, live: self.live, events: self.events }
    }
}

pub(super) struct Writer<'a> {
    pub(super) out: BufWriter<File>,
    elsewhere: &'a Elsewhere,
    offset: u64,
    error: Option<std::io::Error>,
    growing: BTreeMap<u32, Growing>,
    done: Vec<Lane>,
    slots: FreeSlots,
    /// The number of calls of the allocator so far.
    events: u64,
    epoch: u32,
    in_epoch: u32,
    epoch_began: u64,
    last: u64,
    /// For each epoch, the number of threads that have operations in it.
    remaining: Vec<u32>,
    live: u64,
    /// The marks of the run that the merge has not reached yet.
    wanted: Marks,
    /// The end of the epoch with the most live bytes. If the trace has marks for ready and the end of the load, only epochs between them
    /// count.
    peak: End,
    /// The most live bytes in the same span.
    top: u64,
    /// Whether the merge is past this span.
    is_past: bool,
    /// The most live bytes of the whole trace.
    highest: u64,
    /// The longest wait after the peak, and the end of the epoch before it. A mark `idle` replaces the longest wait.
    idle: Option<(u64, End)>,
    marks: Vec<Mark>,
    operations: u64,
    last_resident: u64,
    most_resident: u64,
    threads: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: BufWriter<File>, wanted: Marks, elsewhere: &'a Elsewhere) -> Self {
        Writer {
            out,
            elsewhere,
            offset: HEADER,
            error: None,
            growing: BTreeMap::new(),
            done: Vec::new(),
            slots: FreeSlots::default(),
            events: 0,
            epoch: 0,
            in_epoch: 0,
            epoch_began: 0,
            last: 0,
            remaining: Vec::new(),
            live: 0,
            wanted,
            peak: End::default(),
            top: 0,
            is_past: false,
            highest: 0,
            idle: None,
            marks: Vec::new(),
            operations: 0,
            last_resident: 0,
            most_resident: 0,
            threads: 0,
        }
    }

    /// Ends the epoch.
    fn cut(&mut self, now: u64) {
        if self.in_epoch == 0 {
            return;
        }
        if self.live > self.peak.live && !self.is_past {
            self.peak = self.end_of(self.epoch);
            self.idle = None;
        }
        self.epoch += 1;
        self.in_epoch = 0;
        self.epoch_began = now;
    }

    /// This moment, as the end of an epoch.
    fn end_of(&self, epoch: u32) -> End {
        End { epoch, live: self.live, events: self.events }
    }

    /// Sets the marks of the run that are due at this time.
    fn reach(&mut self, nanos: u64) {
        let is_due = |mark: Option<u64>| mark.is_some_and(|mark| nanos >= mark);
        if is_due(self.wanted.ready) {
            self.wanted.ready = None;
            self.cut(nanos);
            let before = self.end_of(self.epoch.saturating_sub(1));
            self.marks.push(before.mark(0));
            (self.peak, self.top, self.idle) = (before, self.live, None);
        }
        if is_due(self.wanted.peak) {
            self.wanted.peak = None;
            self.cut(nanos);
            self.marks.push(self.end_of(self.epoch.saturating_sub(1)).mark(3));
            (self.is_past, self.idle) = (true, None);
        }
        if is_due(self.wanted.idle) {
            self.wanted.idle = None;
            self.cut(nanos);
            self.is_past = true;
            self.idle = Some((u64::MAX, self.end_of(self.epoch.saturating_sub(1))));
        }
    }

    /// Updates the maxima of the live bytes.
    fn rose(&mut self) {
        self.highest = self.highest.max(self.live);
        self.top = self.top.max(self.live);
    }

    /// Adds an operation of a thread. Ends the epoch if it is full or if the program waited.
    fn push(&mut self, at: At, op: Op) {
        self.reach(at.nanos);
        let waited = at.nanos.saturating_sub(self.last);
        if self.in_epoch >= EPOCH || waited > GAP {
            let before = self.end_of(self.epoch);
            self.cut(at.nanos);
            if waited > IDLE && before.epoch < self.epoch && self.idle.is_none_or(|(longest, _)| waited > longest) {
                self.idle = Some((waited, before));
            }
        }
        self.last = self.last.max(at.nanos);
        if self.in_epoch == 0 {
            self.epoch_began = at.nanos;
        }
        self.in_epoch += 1;
        let (epoch, began) = (self.epoch, self.epoch_began);
        let growing = self.growing.entry(at.thread).or_default();
        if growing.epoch != Some(epoch) {
            if growing.epoch.is_none() {
                (growing.lane.thread, growing.lane.first) = (at.thread, epoch);
                growing.lane.last = u32::MAX;
                self.threads += 1;
            }
            growing.epoch = Some(epoch);
            growing.pending.push(Op::new(kind::EPOCH, 0, epoch, 0, began));
            self.remaining.resize(epoch as usize + 1, 0);
            self.remaining[epoch as usize] += 1;
        }
        growing.pending.push(op);
        let full = growing.pending.len() >= RUN;
        self.operations += 1;
        if full {
            self.flush(at.thread);
        }
    }

    /// Adds an operation that makes a block.
    fn push_new(&mut self, at: At, op: Op) {
        let is_elsewhere = self.elsewhere.has(self.events);
        self.push(at, if is_elsewhere { op.elsewhere() } else { op });
    }

    fn flush(&mut self, thread: u32) {
        let Some(growing) = self.growing.get_mut(&thread).filter(|growing| !growing.pending.is_empty()) else { return };
        growing.lane.runs.push((self.offset, growing.pending.len() as u32));
        self.offset += growing.pending.len() as u64 * 16;
        for op in growing.pending.drain(..) {
            if let Err(error) = self.out.write_all(&op.bytes()) {
                self.error.get_or_insert(error);
            }
        }
    }

    /// Ends the epoch before the live bytes fall from their highest value, so that a mark can stop at this value.
    fn before_a_fall(&mut self, at: At, size: u64) {
        if self.live == self.top
            && !self.is_past
            && size >= (64 << 10).max(self.live / 128)
            && self.live > self.peak.live + self.peak.live / 200
        {
            self.cut(at.nanos);
        }
    }

    fn end(&mut self, thread: u32, last: u32) {
        self.flush(thread);
        self.slots.end(thread);
        if let Some(mut growing) = self.growing.remove(&thread) {
            growing.lane.last = last;
            if growing.epoch.is_some() {
                self.done.push(growing.lane);
            }
        }
    }

    /// Adds the marks of peak and idle, and sorts all marks by their epochs. Without epochs there is no mark.
    fn complete_marks(&mut self, epochs: u32) {
        if epochs == 0 {
            self.marks.clear();
            return;
        }
        self.marks.retain(|mark| mark.epoch < epochs);
        self.marks.push(End { epoch: self.peak.epoch.min(epochs - 1), ..self.peak }.mark(1));
        let idle = self.idle.map_or_else(|| self.end_of(epochs - 1), |(_, idle)| idle);
        self.marks.push(idle.mark(2));
        self.marks.sort_by_key(|mark| (mark.epoch, mark.what));
    }

    /// Ends all lanes, and sorts them by their beginning. The program's first thread comes before all others, even if another thread has
    /// the first operation. In a damaged trace it may have a second lane.
    fn complete_lanes(&mut self) {
        for thread in self.growing.keys().copied().collect::<Vec<_>>() {
            self.end(thread, u32::MAX);
        }
        self.done.sort_by_key(|lane| (lane.first, lane.thread));
        if let Some(at) = self.done.iter().position(|lane| lane.thread == 0) {
            self.done[..=at].rotate_right(1);
        }
    }

    pub(super) fn finish(mut self, trace: &Trace, origin: &Origin, merged: &Merged) -> std::io::Result<()> {
        // The last event may be one that does not call the allocator.
        self.reach(merged.nanos);
        self.cut(merged.nanos);
        self.complete_lanes();
        if let Some(error) = self.error {
            return Err(error);
        }
        let epochs = self.remaining.len() as u32;
        // A requested moment after the last event means the end of the trace.
        if self.wanted.idle.take().is_some() && epochs > 0 {
            self.idle = Some((u64::MAX, self.end_of(epochs - 1)));
        }
        self.complete_marks(epochs);
        let tables = self.offset;
        let mut words: Vec<u64> = Vec::new();
        for mark in &self.marks {
            words.extend([u64::from(mark.epoch), u64::from(mark.what), mark.live, mark.events]);
        }
        for lane in &self.done {
            words.extend([u64::from(lane.first), u64::from(lane.last), lane.runs.len() as u64]);
            words.extend(lane.runs.iter().flat_map(|(offset, count)| [*offset, u64::from(*count)]));
        }
        for word in words.iter().copied().chain(self.remaining.iter().map(|count| u64::from(*count))) {
            self.out.write_all(&word.to_le_bytes())?;
        }
        let header = [
            tables,
            self.marks.len() as u64,
            self.done.len() as u64,
            u64::from(epochs),
            self.slots.count() as u64,
            self.operations,
            self.highest,
            merged.nanos,
            self.most_resident.max(trace.header.most_resident),
            self.last_resident,
            u64::from(trace.header.rate),
            self.threads,
        ];
        self.out.seek(SeekFrom::Start(8))?;
        for word in header.into_iter().chain(origin.words()) {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.flush()?;
        // The magic is written last. Without it, a file that was cut does not count as a prepared trace.
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&MAGIC)?;
        self.out.flush()
    }
}

impl Sink for Writer<'_> {
    type Block = Block;

    fn allocated(&mut self, at: At, how: AllocFunction, size: u64) -> Block {
        let (slot, generation) = self.slots.take(at.thread);
        let (kind, log2) = match how {
            AllocFunction::Calloc => (kind::CALLOC, PLAIN),
            AllocFunction::Aligned(log2) => (kind::MALLOC, log2.min(40)),
            _ => (kind::MALLOC, PLAIN),
        };
        self.push_new(at, Op::new(kind, u32::from(log2), slot, generation, size));
        self.events += 1;
        self.live = self.live.saturating_add(size);
        self.rose();
        Block { slot, generation, log2, size }
    }

    fn freed(&mut self, at: At, block: Block) {
        self.before_a_fall(at, block.size);
        self.push(at, Op::new(kind::FREE, u32::from(block.log2), block.slot, block.generation, block.size));
        self.events += 1;
        self.live = self.live.saturating_sub(block.size);
        self.slots.release(at.thread, block.slot);
    }

    fn resized(&mut self, at: At, block: Block, size: u64) -> Block {
        // The block keeps its alignment, as `GlobalAlloc` requires.
        let (log2, size) = (block.log2, size.max(1 << block.log2.min(4)));
        self.before_a_fall(at, block.size);
        self.push_new(at, Op::new(kind::REALLOC, u32::from(log2), block.slot, block.generation, size));
        let generation = self.slots.again(block.slot);
        self.events += 1;
        self.live = self.live.saturating_sub(block.size).saturating_add(size);
        self.rose();
        Block { slot: block.slot, generation, log2, size }
    }

    fn resident(&mut self, _: At, kib: u64) {
        self.last_resident = kib.saturating_mul(1024);
        self.most_resident = self.most_resident.max(self.last_resident);
    }

    fn mark(&mut self, at: At, mark: u8) {
        if mark == 0 {
            let end = self.end_of(self.epoch);
            self.cut(at.nanos);
            self.marks.push(end.mark(0));
        }
    }

    fn ended(&mut self, at: At) {
        self.push(at, Op::new(kind::END, 0, 0, 0, 0));
        let last = self.epoch;
        self.end(at.thread, last);
    }
}
