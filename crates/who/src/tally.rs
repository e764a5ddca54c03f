//! Counts events. In: the events of a merge, with their stacks. Out: totals of each stack, or of each thread, and the blocks that are
//! alive at a moment. Memory is bounded by the blocks that live at one time.

use std::collections::HashMap;

use allocanary_trace::coder::How;
use allocanary_trace::merge::{At, Sink};
use allocanary_trace::stacks::StackId;

use crate::course::{Course, Span};
use crate::ever::Ever;
use crate::moment::Moment;

/// A block that lives no longer is short-lived.
pub const SHORT_NANOS: u64 = 1_000_000;

/// A block that is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Where it lies.
    pub address: u64,
    /// How many bytes were asked for.
    pub size: u64,
    /// Its index in [`Taken::totals`].
    pub of: u32,
}

/// What a stack or a thread did in the whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The stack, or the thread.
    pub key: u32,
    /// Blocks that were made. A realloc makes one.
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

/// What was counted.
#[derive(Clone, Debug)]
pub struct Taken {
    /// When the blocks were taken.
    pub moment: Moment,
    /// Whether `totals` are of threads. Otherwise of stacks.
    pub by_thread: bool,
    /// Of each stack or thread.
    pub totals: Vec<Totals>,
    /// What was alive at the moment.
    pub blocks: Vec<Block>,
    /// Where blocks had been until then.
    pub ever: Ever,
    /// How live bytes went.
    pub course: Course,
    /// The recorder took the stack of one allocation in so many.
    pub one_stack_in: u32,
}

struct Kept {
    block: Block,
    born: u64,
}

/// Counts the events of a trace.
pub struct Tally {
    taken: Taken,
    /// When live bytes are noted next.
    due: u64,
    index: HashMap<u32, u32>,
    kept: Vec<Kept>,
    unused: Vec<u32>,
    events: u64,
    is_taken: bool,
    stack: StackId,
    address: u64,
    /// The time of the last event.
    last: u64,
}

impl Tally {
    /// Takes the blocks at a moment of a trace. Growth is measured in this part of it.
    pub fn new(moment: Moment, by_thread: bool, span: Option<Span>) -> Tally {
        let (totals, blocks, ever) = (Vec::new(), Vec::new(), Ever::default());
        let course = Course::over(span);
        Tally {
            due: course.due(),
            taken: Taken { moment, by_thread, totals, blocks, ever, course, one_stack_in: 1 },
            index: HashMap::new(),
            kept: Vec::new(),
            unused: Vec::new(),
            events: 0,
            is_taken: false,
            stack: 0,
            address: 0,
            last: 0,
        }
    }

    /// All that was counted, at the end of the trace.
    pub fn taken(mut self) -> Taken {
        self.take();
        while self.due != u64::MAX {
            self.note();
        }
        self.taken
    }

    /// Called before each event.
    fn tick(&mut self, at: At) {
        if at.nanos > self.taken.moment.nanos || self.events >= self.taken.moment.events {
            self.take();
        }
        self.last = at.nanos;
        while at.nanos > self.due {
            self.note();
        }
        self.events += 1;
    }

    /// Keeps what is alive now, once. The moment may be before the first event or behind the last.
    fn take(&mut self) {
        if !std::mem::replace(&mut self.is_taken, true) {
            let mut is_free = vec![false; self.kept.len()];
            self.unused.iter().for_each(|slot| is_free[*slot as usize] = true);
            let live = self.kept.iter().zip(is_free).filter(|(_, is_free)| !is_free);
            self.taken.blocks = live.map(|(kept, _)| kept.block).collect();
            // A moment that is a number of events has the time of the last one.
            if self.taken.moment.nanos == u64::MAX {
                self.taken.moment.nanos = self.last;
            }
        }
    }

    /// A time of the course has passed.
    fn note(&mut self) {
        let Taken { course, totals, .. } = &mut self.taken;
        course.note((0..).zip(totals).filter(|(_, totals)| totals.live != totals.noted).map(|(of, totals)| {
            let change = totals.live.wrapping_sub(totals.noted).cast_signed();
            totals.noted = totals.live;
            (of, change)
        }));
        self.due = course.due();
    }

    fn add(&mut self, at: At, size: u64) -> u32 {
        let stack = std::mem::take(&mut self.stack);
        let key = if self.taken.by_thread { at.thread } else { stack };
        let totals = &mut self.taken.totals;
        let of = *self.index.entry(key).or_insert_with(|| {
            totals.push(Totals { key, ..Totals::default() });
            totals.len() as u32 - 1
        });
        let totals = &mut totals[of as usize];
        totals.allocations += 1;
        totals.bytes = totals.bytes.saturating_add(size);
        totals.live = totals.live.saturating_add(size);
        if !self.is_taken {
            self.taken.ever.add(self.address, size);
        }
        let kept = Kept { block: Block { address: self.address, size, of }, born: at.nanos };
        match self.unused.pop() {
            Some(slot) => {
                self.kept[slot as usize] = kept;
                slot
            }
            None => {
                self.kept.push(kept);
                self.kept.len() as u32 - 1
            }
        }
    }

    fn remove(&mut self, at: At, slot: u32) {
        let Kept { block, born } = self.kept[slot as usize];
        self.unused.push(slot);
        let totals = &mut self.taken.totals[block.of as usize];
        totals.live = totals.live.saturating_sub(block.size);
        if at.nanos.saturating_sub(born) <= SHORT_NANOS {
            totals.short += 1;
            totals.short_bytes = totals.short_bytes.saturating_add(block.size);
        }
    }
}

impl Sink for Tally {
    /// Its place in `kept`.
    type Block = u32;

    fn placed(&mut self, address: u64) {
        self.address = address;
    }

    fn stack(&mut self, stack: StackId) {
        self.stack = stack;
    }

    fn allocated(&mut self, at: At, _: How, size: u64) -> u32 {
        self.tick(at);
        self.add(at, size)
    }

    fn freed(&mut self, at: At, slot: u32) {
        self.tick(at);
        self.remove(at, slot);
    }

    fn resized(&mut self, at: At, slot: u32, size: u64) -> u32 {
        self.tick(at);
        self.remove(at, slot);
        self.add(at, size)
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests {
    use super::*;
    use crate::invented::Events;

    #[test]
    fn what_is_alive_at_the_moment_is_taken_and_all_is_counted() {
        let mut events = Events::new(Moment::at_time(2_000_000), 8_000_000);
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
        assert_eq!(taken.ever.stretches().collect::<Vec<_>>(), [1..5]);
    }

    #[test]
    fn a_stack_counts_for_one_block_only() {
        let mut tally = Tally::new(Moment::at_time(9), false, None);
        tally.stack(7);
        let at = At { nanos: 0, thread: 3 };
        tally.allocated(at, How::Malloc, 1);
        tally.allocated(at, How::Malloc, 1);
        assert_eq!(tally.taken().totals.iter().map(|totals| totals.key).collect::<Vec<_>>(), [7, 0]);
    }

    #[test]
    fn threads_are_counted_in_place_of_stacks() {
        let mut tally = Tally::new(Moment::at_time(9), true, None);
        tally.stack(7);
        tally.allocated(At { nanos: 0, thread: 3 }, How::Malloc, 1);
        assert_eq!(tally.taken().totals[0].key, 3);
    }
}
