//! Computes the figures of a trace, without a replay. In: a trace. Out: threads, sizes, lifetimes, live bytes over time, and the sizes that
//! grow. The memory that this needs depends only on the blocks that are live at one time.

use std::collections::BTreeMap;

use crate::coder::AllocFunction;
use crate::error::Result;
use crate::format::{MOST_NODES, TraceHeader};
use crate::merge::{At, Merged, Sink, merge};
use crate::reader::Trace;
use crate::stacks::StackId;

/// The number of size classes. Class `n` has blocks above 2^(n-1) up to 2^n bytes.
pub const CLASSES: usize = 48;
/// The maximum number of points in the curve of live bytes.
const MOST_POINTS: usize = 512;

/// The figures of a trace.
#[derive(Clone, Debug)]
pub struct Info {
    /// The file's header.
    pub header: TraceHeader,
    /// The used bytes of the file; for a packed trace, those of the unpacked file.
    pub bytes: u64,
    /// The bytes of the file, if it is packed.
    pub packed_bytes: Option<u64>,
    /// The result of the merge.
    pub merged: Merged,
    /// The number of allocations.
    pub allocations: u64,
    /// The number of allocations by calloc.
    pub callocs: u64,
    /// The number of allocations with an alignment.
    pub aligned: u64,
    /// The number of frees.
    pub frees: u64,
    /// The number of reallocs.
    pub resizes: u64,
    /// The number of frees and reallocs by another thread than the one that allocated.
    pub crossing: u64,
    /// Bytes of all allocations together.
    pub requested: u64,
    /// The most live bytes at one time.
    pub peak_live: u64,
    /// The time of this peak, in nanoseconds.
    pub peak_nanos: u64,
    /// Live bytes at the end.
    pub end_live: u64,
    /// The highest RssAnon of the program, in bytes.
    pub most_resident: u64,
    /// The stacks of the allocations; `None` if the trace has no stacks.
    pub stacks: Option<StackFigures>,
    /// Each class of sizes that occurs.
    pub classes: Vec<Class>,
    /// Numbers of blocks by their lifetime: up to a microsecond, up to ten, and so on. The last entry is the blocks that are live at the
    /// end.
    pub lifetimes: Vec<(String, u64)>,
    /// Threads: number, events, first and last event in nanoseconds, whether it ended.
    pub threads: Vec<ThreadInfo>,
    /// The maximum number of threads at one time.
    pub most_threads: u64,
    /// Live bytes over time.
    pub curve: Vec<CurvePoint>,
}

/// The stacks of a trace in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackFigures {
    /// The number of allocations that have a stack.
    pub allocations: u64,
    /// The number of different stacks.
    pub different: u64,
    /// The number of nodes in the tables.
    pub nodes: u64,
    /// The number of files with the code of frames.
    pub modules: u64,
    /// The bytes that stacks take in the file: the tables, and the events with a stack.
    pub bytes: u64,
}

/// The blocks of one class of sizes.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// The largest size.
    pub up_to: u64,
    /// The number of allocations.
    pub allocations: u64,
    /// The bytes of these allocations.
    pub bytes: u64,
    /// Live bytes at the peak.
    pub at_peak: u64,
    /// Live bytes at the end.
    pub at_end: u64,
    /// Whether the live bytes of the class grow: see [`rises`].
    pub grows: bool,
}

/// A thread of the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadInfo {
    /// The thread's number.
    pub thread: u32,
    /// The number of its events.
    pub events: u64,
    /// The time of its first event.
    pub first_nanos: u64,
    /// The time of its last event.
    pub last_nanos: u64,
    /// Whether it ended before the program did.
    pub ended: bool,
}

/// A point of the curve.
#[derive(Clone, Debug)]
pub struct CurvePoint {
    /// The time of the point, in nanoseconds.
    pub nanos: u64,
    /// Live bytes.
    pub live: u64,
    /// The last reading of RssAnon, in bytes.
    pub resident: u64,
    /// The number of events until then.
    pub events: u64,
    classes: [u64; CLASSES],
}

impl CurvePoint {
    /// Live bytes of the blocks above 2^(n-1) up to 2^n bytes.
    pub fn class(&self, n: usize) -> u64 {
        self.classes.get(n).copied().unwrap_or(0)
    }
}

/// The class of a size: see [`CLASSES`].
fn class_of(size: u64) -> usize {
    (u64::BITS - size.saturating_sub(1).leading_zeros()).min(CLASSES as u32 - 1) as usize
}

struct Block {
    size: u64,
    born: u64,
    thread: u32,
}

struct Counter {
    allocations: u64,
    callocs: u64,
    aligned: u64,
    frees: u64,
    resizes: u64,
    crossing: u64,
    requested: u64,
    live: u64,
    peak_live: u64,
    peak_nanos: u64,
    /// Whether the live bytes are at a new maximum whose classes are not stored yet.
    rising: bool,
    resident: u64,
    most_resident: u64,
    classes: [(u64, u64); CLASSES],
    now: [u64; CLASSES],
    at_peak: [u64; CLASSES],
    lifetimes: [u64; 10],
    threads: BTreeMap<u32, ThreadInfo>,
    running: u64,
    most_threads: u64,
    curve: Vec<CurvePoint>,
    /// The time between two points.
    step: u64,
    events: u64,
    stacked: u64,
    /// Whether each stack has occurred.
    stacks: Vec<bool>,
}

impl Counter {
    fn tick(&mut self, at: At) {
        self.events += 1;
        let thread = self.threads.entry(at.thread).or_default();
        if thread.events == 0 {
            *thread = ThreadInfo { thread: at.thread, first_nanos: at.nanos, ..ThreadInfo::default() };
        }
        thread.events += 1;
        thread.last_nanos = at.nanos;
        self.catch_up(at.nanos);
    }

    /// Adds a point for each step until now, with the live bytes before this event. Steps without an event get a point too, so that the
    /// curve is flat there. If there are too many points, every second one is removed, and the step is doubled.
    fn catch_up(&mut self, nanos: u64) {
        let next = |last: &CurvePoint, step: u64| last.nanos.checked_add(step);
        if self.curve.is_empty() {
            self.point(nanos);
        }
        while let Some(due) = self.curve.last().and_then(|last| next(last, self.step)).filter(|due| *due <= nanos) {
            if self.curve.len() < MOST_POINTS {
                self.point(due);
                continue;
            }
            let mut kept = 0;
            self.curve.retain(|_| {
                kept += 1;
                kept % 2 == 1
            });
            self.step = self.step.saturating_mul(2);
        }
    }

    fn point(&mut self, nanos: u64) {
        let (live, resident, events, classes) = (self.live, self.resident, self.events, self.now);
        self.curve.push(CurvePoint { nanos, live, resident, events, classes });
    }

    fn add(&mut self, at: At, size: u64) -> Block {
        let class = class_of(size);
        self.requested = self.requested.saturating_add(size);
        self.classes[class].0 += 1;
        self.classes[class].1 = self.classes[class].1.saturating_add(size);
        self.now[class] = self.now[class].saturating_add(size);
        self.live = self.live.saturating_add(size);
        if self.live > self.peak_live {
            (self.peak_live, self.peak_nanos, self.rising) = (self.live, at.nanos, true);
        }
        Block { size, born: at.nanos, thread: at.thread }
    }

    fn remove(&mut self, at: At, block: &Block) {
        if self.rising {
            (self.at_peak, self.rising) = (self.now, false);
        }
        let class = class_of(block.size);
        self.now[class] = self.now[class].saturating_sub(block.size);
        self.live = self.live.saturating_sub(block.size);
        self.crossing += u64::from(block.thread != at.thread);
        let age = at.nanos.saturating_sub(block.born);
        let decade = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000_u64];
        self.lifetimes[decade.iter().position(|limit| age <= *limit).unwrap_or(decade.len())] += 1;
    }
}

impl Sink for Counter {
    type Block = Block;

    fn stack(&mut self, stack: StackId) {
        if stack == 0 || stack as usize >= MOST_NODES {
            return;
        }
        self.stacked += 1;
        if self.stacks.len() <= stack as usize {
            self.stacks.resize(stack as usize + 1, false);
        }
        self.stacks[stack as usize] = true;
    }

    fn began(&mut self, _: At) {
        self.running += 1;
        self.most_threads = self.most_threads.max(self.running);
    }

    fn allocated(&mut self, at: At, how: AllocFunction, size: u64) -> Block {
        self.tick(at);
        self.allocations += 1;
        self.callocs += u64::from(how == AllocFunction::Calloc);
        self.aligned += u64::from(matches!(how, AllocFunction::Aligned(_)));
        self.add(at, size)
    }

    fn freed(&mut self, at: At, block: Block) {
        self.tick(at);
        self.frees += 1;
        self.remove(at, &block);
    }

    fn resized(&mut self, at: At, block: Block, size: u64) -> Block {
        self.tick(at);
        self.resizes += 1;
        self.remove(at, &block);
        self.add(at, size)
    }

    fn resident(&mut self, at: At, kib: u64) {
        self.resident = kib.saturating_mul(1024);
        self.most_resident = self.most_resident.max(self.resident);
        self.tick(at);
    }

    fn ended(&mut self, at: At) {
        self.running = self.running.saturating_sub(1);
        self.tick(at);
        self.threads.entry(at.thread).or_default().ended = true;
    }
}

/// Reads the whole trace.
pub fn info(trace: &Trace) -> Result<Info> {
    let mut counter = Counter {
        allocations: 0,
        callocs: 0,
        aligned: 0,
        frees: 0,
        resizes: 0,
        crossing: 0,
        requested: 0,
        live: 0,
        peak_live: 0,
        peak_nanos: 0,
        rising: false,
        resident: 0,
        most_resident: 0,
        classes: [(0, 0); CLASSES],
        now: [0; CLASSES],
        at_peak: [0; CLASSES],
        lifetimes: [0; 10],
        threads: BTreeMap::new(),
        running: 0,
        most_threads: 0,
        curve: Vec::new(),
        step: 100_000,
        events: 0,
        stacked: 0,
        stacks: Vec::new(),
    };
    let merged = merge(trace, &mut counter)?;
    counter.lifetimes[9] = merged.alive;
    if counter.rising {
        counter.at_peak = counter.now;
    }
    counter.catch_up(merged.nanos);
    counter.point(merged.nanos);
    let stacks = figures(trace, &merged, &counter)?;
    let classes = (0..CLASSES).filter(|class| counter.classes[*class].0 > 0);
    let classes = classes.map(|class| Class {
        up_to: 1 << class,
        allocations: counter.classes[class].0,
        bytes: counter.classes[class].1,
        at_peak: counter.at_peak[class],
        at_end: counter.now[class],
        grows: grows(&counter.curve, class, counter.live),
    });
    let names = ["1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "longer", "alive at the end"];
    Ok(Info {
        header: trace.header.clone(),
        bytes: trace.bytes,
        packed_bytes: trace.packed_bytes,
        allocations: counter.allocations,
        callocs: counter.callocs,
        aligned: counter.aligned,
        frees: counter.frees,
        resizes: counter.resizes,
        crossing: counter.crossing,
        requested: counter.requested,
        peak_live: counter.peak_live,
        peak_nanos: counter.peak_nanos,
        end_live: counter.live,
        most_resident: counter.most_resident.max(trace.header.most_resident),
        stacks,
        classes: classes.collect(),
        lifetimes: names.iter().zip(counter.lifetimes).map(|(name, count)| (name.to_string(), count)).collect(),
        threads: counter.threads.into_values().collect(),
        most_threads: counter.most_threads,
        curve: counter.curve,
        merged,
    })
}

/// The stacks of a trace in numbers; `None` for a trace without stacks.
fn figures(trace: &Trace, merged: &Merged, counter: &Counter) -> Result<Option<StackFigures>> {
    if trace.header.stacks == 0 {
        return Ok(None);
    }
    let tables = trace.stacks()?;
    Ok(Some(StackFigures {
        allocations: counter.stacked,
        different: counter.stacks.iter().filter(|occurs| **occurs).count() as u64,
        nodes: tables.nodes.len() as u64 - 1,
        modules: tables.modules.len() as u64,
        bytes: trace.table_bytes() + merged.stack_bytes,
    }))
}

/// Whether a class grows; see [`rises`].
fn grows(curve: &[CurvePoint], class: usize, live: u64) -> bool {
    let Some(end) = curve.last().map(|point| point.nanos) else { return false };
    let at = |quarter: u64| {
        let index = curve.partition_point(|point| point.nanos <= end / 4 * quarter);
        curve[index.saturating_sub(1)].classes[class]
    };
    rises([at(1), at(2), at(3), curve[curve.len() - 1].classes[class]], live)
}

/// Whether live bytes rose by a twentieth from each quarter of the trace to the next, and are at least a hundredth of all
/// live bytes at the end. The first quarter is the program's start.
pub fn rises(quarters: [u64; 4], live: u64) -> bool {
    let rises = |pair: &[u64]| pair[1] > pair[0].saturating_add(pair[0] / 20);
    quarters.windows(2).all(rises) && quarters[3] >= live / 100
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::TraceBuilder;
    use crate::coder::Event;
    use std::io::Write;

    /// A window of 4000 ticks at the end of 16,000 ticks. The other thread frees each block 100 steps after it was made.
    fn windowed(lost: u64) -> Vec<u8> {
        let mut sample = TraceBuilder::windowed(1024, 4000, lost);
        for at in 0..400_u64 {
            let ticks = 1000 + at * 40;
            let address = |at: u64| 0x7000_0000 + at % 150 * 640;
            sample.event(0, ticks, Event::New { how: AllocFunction::Malloc, address: address(at), size: 600 });
            if at >= 100 {
                sample.event(1, ticks + 20, Event::Free { address: address(at - 100) });
            }
            if at % 50 == 0 {
                // This block passes from one chunk to the next in the middle of a realloc.
                sample.event(0, ticks + 25, Event::Resize { address: address(at) });
                sample.event(
                    0,
                    ticks + 30,
                    Event::New { how: AllocFunction::Resized, address: address(at), size: 5000 },
                );
            }
        }
        sample.finish()
    }

    /// The maximum size of the file makes this window shorter than requested.
    #[test]
    fn a_window_begins_where_the_last_lost_chunk_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.trace");
        for (lost, nanos) in [(0, 40_000), (6_000, 40_000), (12_000, 40_000), (15_000, 19_800), (16_000, 9_800)] {
            std::fs::write(&path, windowed(lost)).unwrap();
            let info = info(&Trace::open(&path).unwrap()).unwrap();
            assert_eq!((info.merged.strays, info.merged.lost_frees, info.merged.damage.len()), (0, 0, 0), "{lost}");
            assert!(info.merged.nanos.abs_diff(nanos) < 1000, "{lost}: {}", info.merged.nanos);
            let steps = nanos / 400;
            assert!(info.allocations.abs_diff(steps) <= 6, "{lost}: {}", info.allocations);
            assert!(info.merged.before.abs_diff(steps.min(100)) <= 20, "{lost}: {}", info.merged.before);
        }
    }

    /// Where nothing happened the curve is flat, and the number of points stays small.
    #[test]
    fn a_second_in_which_nothing_happened_has_points_that_are_equal() {
        const MS: u64 = 1_000_000 / 10; // 10 ns a tick
        let mut sample = TraceBuilder::stamped(4096, 1);
        let new = |at: u64| Event::New { how: AllocFunction::Malloc, address: 0x10000 + at * 2048, size: 1024 };
        (0..100).for_each(|at| sample.event(0, at * MS, new(at)));
        (100..200).for_each(|at| sample.event(0, 1000 * MS + at * MS, new(at)));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&sample.finish()).unwrap();
        let found = info(&Trace::open(file.path()).unwrap()).unwrap();
        let idle = |point: &&CurvePoint| (110_000_000..1_090_000_000).contains(&point.nanos);
        let live: Vec<u64> = found.curve.iter().filter(idle).map(|point| point.live).collect();
        assert!(live.len() > 100 && live.iter().all(|bytes| *bytes == live[0]), "{live:?}");
        assert!(found.curve.len() <= MOST_POINTS + 1);
        assert_eq!(found.curve.last().map(|point| point.live), Some(200 * 1024));
    }
}
