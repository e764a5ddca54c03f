//! Counts the events of a trace: the totals of each stack or thread, and the blocks that are live at a moment. The memory needed depends on
//! the blocks that are live at one time.
//!
//! A block is live at the moment if it begins before the moment and ends after it. So it is put on the list when it ends, or at the end of
//! the trace. If a higher peak follows, the list is cleared.

mod made;

use allocanary_trace::coder::AllocFunction;
use allocanary_trace::format::Marks;
use allocanary_trace::hash::AddressMap;
use allocanary_trace::merge::{At, Sink};
use allocanary_trace::stacks::StackId;

pub use made::PackedBlock;

use self::made::Recent;
use crate::course::{Course, GrowthSpan};
use crate::ever::{Ever, PAGE};
use crate::moment::{Peak, TracePoint};
use crate::watch::PeakFinder;

/// A block that lives for at most this time is short-lived.
pub const SHORT_NANOS: u64 = 1_000_000;

/// A block that is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveBlock {
    /// Its address.
    pub address: u64,
    /// Its requested size in bytes.
    pub size: u64,
    /// Its index in [`BlockTally::totals`].
    pub of: u32,
}

/// The totals of a stack or a thread over the whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceTotals {
    /// The stack, or the thread.
    pub key: u32,
    /// The number of blocks that were made. A realloc counts as one.
    pub allocations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks that lived no longer than [`SHORT_NANOS`].
    pub short: u64,
    /// Their bytes.
    pub short_bytes: u64,
    live: u64,
    /// Live bytes when the course was last noted.
    noted: u64,
}

impl TraceTotals {
    /// The totals of a stack whose events were not counted one by one.
    pub(crate) fn known(key: u32, allocations: u64, bytes: u64) -> TraceTotals {
        TraceTotals { key, allocations, bytes, ..TraceTotals::default() }
    }
}

/// The result of counting.
#[derive(Clone, Debug)]
pub struct BlockTally {
    /// The moment at which the blocks were taken.
    pub moment: TracePoint,
    /// Whether `totals` are of threads; otherwise they are of stacks.
    pub by_thread: bool,
    /// The totals of each stack or thread.
    pub totals: Vec<TraceTotals>,
    /// The blocks that were live at the moment.
    pub blocks: Vec<LiveBlock>,
    /// The pages in which blocks had been until then.
    pub ever: Ever,
    /// The size of a page where the program ran.
    pub page: u64,
    /// Live bytes over time.
    pub course: Course,
    /// One allocation in this many has a recorded stack.
    pub one_stack_in: u32,
    /// For a trace with a window: the number of older blocks that were freed in the window.
    pub freed_from_before: Option<u64>,
}

/// Counts the events of a trace.
pub struct EventTally {
    taken: BlockTally,
    /// The next time at which live bytes are noted.
    due: u64,
    index: AddressMap<u32>,
    events: u64,
    /// The recent events: a block that one of them made is still short-lived.
    recent: Recent,
    is_taken: bool,
    /// The moment is after this many events; 0 before it is reached.
    cut: u64,
    /// The search for the peak, if the moment is the most live bytes.
    peak: Option<PeakFinder>,
    stack: StackId,
    /// The address of the next call's block, and of the block that the call ends.
    address: u64,
    leaves: u64,
    /// The time of the last event.
    last: u64,
}

impl EventTally {
    /// Takes the blocks at a moment of a trace. Growth is measured in `span`.
    pub fn new(moment: TracePoint, by_thread: bool, span: Option<GrowthSpan>) -> EventTally {
        let (totals, blocks, ever) = (Vec::new(), Vec::new(), Ever::default());
        let course = Course::over(span);
        EventTally {
            due: course.due(),
            taken: BlockTally {
                moment,
                by_thread,
                totals,
                blocks,
                ever,
                page: PAGE,
                course,
                one_stack_in: 1,
                freed_from_before: None,
            },
            index: AddressMap::default(),
            events: 0,
            recent: Recent::default(),
            is_taken: false,
            cut: 0,
            peak: None,
            stack: 0,
            address: 0,
            leaves: 0,
            last: 0,
        }
    }

    /// Takes the blocks at the moment with the most live bytes until the end of the load, as [`Peak`] finds it, without reading the
    /// trace twice.
    pub fn at_peak(marks: &Marks, by_thread: bool, span: Option<GrowthSpan>) -> EventTally {
        let peak = Some(PeakFinder::until(marks.peak.unwrap_or(u64::MAX)));
        EventTally { peak, ..EventTally::new(Peak::until(marks).moment(), by_thread, span) }
    }

    /// The result, at the end of the trace.
    pub fn taken(mut self) -> BlockTally {
        if self.peak.is_none() {
            self.take();
        }
        while self.due != u64::MAX {
            self.note();
        }
        self.taken
    }

    /// Called before each event.
    fn tick(&mut self, at: At) {
        let is_past = at.nanos > self.taken.moment.nanos || self.events >= self.taken.moment.events;
        if is_past && self.peak.is_none() {
            self.take();
        }
        self.last = at.nanos;
        while at.nanos > self.due {
            self.note();
        }
        self.events += 1;
        self.recent.event(at.nanos, self.events);
    }

    /// Marks the moment as reached, once. It may be before the first event or after the last.
    fn take(&mut self) {
        if !std::mem::replace(&mut self.is_taken, true) {
            self.cut = self.events;
            // A moment that is given as a number of events gets the time of the last of them.
            if self.taken.moment.nanos == u64::MAX {
                self.taken.moment.nanos = self.last;
            }
        }
    }

    /// Notes live bytes when a time of the course has passed.
    fn note(&mut self) {
        let BlockTally { course, totals, .. } = &mut self.taken;
        course.note((0..).zip(totals).filter(|(_, totals)| totals.live != totals.noted).map(|(of, totals)| {
            let change = totals.live.wrapping_sub(totals.noted).cast_signed();
            totals.noted = totals.live;
            (of, change)
        }));
        self.due = course.due();
    }

    fn add(&mut self, at: At, size: u64) -> PackedBlock {
        let stack = std::mem::take(&mut self.stack);
        let key = if self.taken.by_thread { at.thread } else { stack };
        let totals = &mut self.taken.totals;
        let of = *self.index.entry(u64::from(key)).or_insert_with(|| {
            totals.push(TraceTotals { key, ..TraceTotals::default() });
            totals.len() as u32 - 1
        });
        let totals = &mut totals[of as usize];
        totals.allocations += 1;
        totals.bytes = totals.bytes.saturating_add(size);
        totals.live = totals.live.saturating_add(size);
        if !self.is_taken && self.peak.is_none() {
            self.taken.ever.add(self.address, size);
        }
        if let Some(watch) = &mut self.peak
            && watch.added(at.nanos, self.address, size, &mut self.taken.ever)
        {
            self.taken.blocks.clear();
            self.cut = self.events;
            (self.taken.moment.nanos, self.taken.moment.events) = (at.nanos, self.events);
        }
        PackedBlock::new(size, of, self.events)
    }

    fn remove(&mut self, made: PackedBlock) {
        let (size, of) = (made.size(), made.of());
        if let Some(watch) = &mut self.peak {
            watch.removed(size);
        }
        self.keep(self.leaves, made);
        let totals = &mut self.taken.totals[of as usize];
        totals.live = totals.live.saturating_sub(size);
        if made.event() >= self.recent.first() {
            totals.short += 1;
            totals.short_bytes = totals.short_bytes.saturating_add(size);
        }
    }

    /// Keeps a block that lives until now if it began before the moment.
    fn keep(&mut self, address: u64, made: PackedBlock) {
        if made.event() <= self.cut {
            self.taken.blocks.push(LiveBlock { address, size: made.size(), of: made.of() });
        }
    }
}

impl Sink for EventTally {
    type Block = PackedBlock;

    fn placed(&mut self, address: u64) {
        self.address = address;
    }

    fn leaves(&mut self, address: u64) {
        self.leaves = address;
    }

    fn stack(&mut self, stack: StackId) {
        self.stack = stack;
    }

    fn allocated(&mut self, at: At, _: AllocFunction, size: u64) -> PackedBlock {
        self.tick(at);
        self.add(at, size)
    }

    fn freed(&mut self, at: At, made: PackedBlock) {
        self.tick(at);
        self.remove(made);
    }

    fn resized(&mut self, at: At, made: PackedBlock, size: u64) -> PackedBlock {
        self.tick(at);
        self.remove(made);
        self.add(at, size)
    }

    fn remains(&mut self, address: u64, made: PackedBlock) {
        if self.peak.is_none() {
            self.take();
        }
        self.keep(address, made);
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests {
    use super::*;
    use crate::invented::Events;

    #[test]
    fn what_is_alive_at_the_moment_is_taken_and_all_is_counted() {
        let mut events = Events::new(TracePoint::at_time(2_000_000), 8_000_000);
        let a = events.new_block(0, 1, 0x1000, 100);
        let b = events.new_block(1, 2, 0x2000, 50);
        events.free(500_000, b);
        let b = events.new_block(1_500_000, 2, 0x3000, 60);
        let b = events.resize(2_000_000, 2, b, 0x4000, 70);
        events.free(2_000_001, a);
        events.free(7_200_000, b);
        let taken = events.taken();
        let mut blocks: Vec<_> = taken.blocks.iter().map(|block| (block.address, block.size)).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, [(0x1000, 100), (0x4000, 70)], "an event at the moment counts, a later one does not");
        let [one, two] = taken.totals[..] else { panic!("{:?}", taken.totals) };
        assert_eq!((one.key, one.allocations, one.bytes, one.short), (1, 1, 100, 0));
        assert_eq!((two.key, two.allocations, two.bytes, two.short, two.short_bytes), (2, 3, 180, 2, 110));
        // Live bytes are noted from 2 to 7.2 ms: an event at the time counts.
        let courses = taken.course.sums(2, |of| Some(of as usize));
        assert_eq!((courses[0][0], courses[0][1], courses[0][47]), (100.0, 0.0, 0.0));
        assert_eq!((courses[1][0], courses[1][46], courses[1][47]), (70.0, 70.0, 0.0));
        assert_eq!(taken.ever.stretches(PAGE).collect::<Vec<_>>(), [1..5]);
    }

    /// `--under` still reads twice: it needs to know the moment before the replay.
    #[test]
    fn fuzz_one_pass_takes_the_same_blocks_at_the_peak_as_two() {
        use allocanary_sys::rng::Rng;
        for seed in 0..300 {
            let marks = Marks { peak: (seed % 3 == 0).then_some(150), ..Marks::default() };
            let mut peak = Peak::until(&marks);
            play(seed, &mut peak);
            let mut two = EventTally::new(peak.moment(), false, None);
            play(seed, &mut two);
            let mut one = EventTally::at_peak(&marks, false, None);
            play(seed, &mut one);
            let told = |taken: BlockTally| {
                let mut blocks: Vec<_> = taken.blocks.iter().map(|of| (of.address, of.size, of.of)).collect();
                blocks.sort_unstable();
                (taken.moment, blocks, taken.ever.stretches(PAGE).collect::<Vec<_>>(), taken.totals)
            };
            assert_eq!(told(one.taken()), told(two.taken()), "{seed}");
        }

        /// Some 200 events of a few stacks; live bytes rise and fall.
        fn play<S: Sink>(seed: u64, sink: &mut S) {
            let mut rng = Rng::new(seed);
            let mut live = Vec::new();
            for event in 0..rng.below(250) as u64 {
                let at = At { nanos: event, thread: 0 };
                let is_rising = event / 40 % 2 == 0;
                if live.is_empty() || rng.below(10) < if is_rising { 7 } else { 4 } {
                    let old = (rng.below(4) == 0 && !live.is_empty()).then(|| live.swap_remove(rng.below(live.len())));
                    let address = rng.below(1 << 20) as u64;
                    sink.placed(address);
                    sink.stack(rng.below(3) as u32);
                    let size = rng.below(9000) as u64;
                    let block = match old {
                        Some((from, old)) => {
                            sink.leaves(from);
                            sink.resized(at, old, size)
                        }
                        None => sink.allocated(at, AllocFunction::Malloc, size),
                    };
                    live.push((address, block));
                } else {
                    let (address, block) = live.swap_remove(rng.below(live.len()));
                    sink.leaves(address);
                    sink.freed(at, block);
                }
            }
            live.into_iter().for_each(|(address, block)| sink.remains(address, block));
        }
    }

    #[test]
    fn a_stack_counts_for_one_block_only() {
        let mut tally = EventTally::new(TracePoint::at_time(9), false, None);
        tally.stack(7);
        let at = At { nanos: 0, thread: 3 };
        tally.allocated(at, AllocFunction::Malloc, 1);
        tally.allocated(at, AllocFunction::Malloc, 1);
        assert_eq!(tally.taken().totals.iter().map(|totals| totals.key).collect::<Vec<_>>(), [7, 0]);
    }

    #[test]
    fn threads_are_counted_in_place_of_stacks() {
        let mut tally = EventTally::new(TracePoint::at_time(9), true, None);
        tally.stack(7);
        tally.allocated(At { nanos: 0, thread: 3 }, AllocFunction::Malloc, 1);
        assert_eq!(tally.taken().totals[0].key, 3);
    }
}
