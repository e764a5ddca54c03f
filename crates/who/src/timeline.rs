//! Records the live bytes of the sites with the most live bytes, at even times over the whole trace. Growth is measured only in a part of
//! the trace. This picture shows all of it, also for a window.

use std::collections::HashMap;

use allocanary_trace::coder::AllocFunction;
use allocanary_trace::error::Result;
use allocanary_trace::merge::{At, Sink, merge};
use allocanary_trace::reader::Trace;
use allocanary_trace::stacks::StackId;

use crate::course::{Course, GrowthSpan, TIMES};
use crate::groups::StackGroups;
use crate::sites::live_one_in;
use crate::tally::BlockTally;

/// A site over time.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteSeries {
    /// The name of the site.
    pub name: String,
    /// The points: nanoseconds after the start, and the site's live bytes at that time.
    pub points: Vec<(u64, f64)>,
}

/// The sites with the most live bytes at one of the times, the largest first. `groups` must be of the same trace.
pub fn of(trace: &Trace, taken: &BlockTally, groups: &StackGroups, most: usize) -> Result<Vec<SiteSeries>> {
    let length = trace.header.nanos(trace.header.last_ticks);
    if length == 0 {
        return Ok(Vec::new());
    }
    let span = GrowthSpan { from: 0, to: length, words: "" };
    let mut watching = Watching::over(span);
    merge(trace, &mut watching)?;
    let factor = crate::sites::one_in(taken).map_or(1.0, |one_in| live_one_in(taken, one_in));
    Ok(lines(watching, span, taken, groups, most, factor))
}

fn lines(
    watching: Watching,
    span: GrowthSpan,
    taken: &BlockTally,
    groups: &StackGroups,
    most: usize,
    factor: f64,
) -> Vec<SiteSeries> {
    let (stacks, course) = watching.end();
    let of_stack: HashMap<StackId, usize> =
        taken.totals.iter().zip(&groups.of).filter_map(|(totals, group)| Some((totals.key, (*group)?))).collect();
    let sums = course.sums(groups.sites.len(), |of| of_stack.get(&stacks[of as usize]).copied());
    let highest = |values: &[f64; TIMES]| values.iter().copied().fold(0.0, f64::max);
    let mut largest: Vec<usize> = (0..sums.len()).filter(|site| highest(&sums[*site]) > 0.0).collect();
    largest.sort_by(|a, b| highest(&sums[*b]).total_cmp(&highest(&sums[*a])));
    largest.truncate(most);
    let times: Vec<u64> = (0..TIMES).map(|time| span.at(time)).collect();
    let line = |site: usize| SiteSeries {
        name: groups.sites[site].0.clone(),
        points: times.iter().zip(sums[site]).map(|(time, bytes)| (*time, bytes * factor)).collect(),
    };
    largest.into_iter().map(line).collect()
}

/// Counts live bytes of stacks. The memory needed depends on the blocks that live at one time, and on the stacks.
struct Watching {
    course: Course,
    due: u64,
    index: HashMap<StackId, u32>,
    stacks: Vec<StackId>,
    /// Live bytes of each stack, and those at the time before.
    live: Vec<(u64, u64)>,
    stack: StackId,
}

impl Watching {
    fn over(span: GrowthSpan) -> Watching {
        let course = Course::over(Some(span));
        let (index, stacks, live) = Default::default();
        Watching { due: course.due(), course, index, stacks, live, stack: 0 }
    }

    fn tick(&mut self, at: At) {
        while at.nanos > self.due {
            self.note();
        }
    }

    fn note(&mut self) {
        let changed = (0..).zip(&mut self.live).filter(|(_, (live, noted))| live != noted);
        self.course.note(changed.map(|(of, (live, noted))| {
            let change = live.wrapping_sub(*noted).cast_signed();
            *noted = *live;
            (of, change)
        }));
        self.due = self.course.due();
    }

    fn add(&mut self, size: u64) -> (u32, u64) {
        let stack = std::mem::take(&mut self.stack);
        let of = *self.index.entry(stack).or_insert_with(|| {
            self.stacks.push(stack);
            self.live.push((0, 0));
            self.stacks.len() as u32 - 1
        });
        let live = &mut self.live[of as usize].0;
        *live = live.saturating_add(size);
        (of, size)
    }

    fn remove(&mut self, (of, size): (u32, u64)) {
        let live = &mut self.live[of as usize].0;
        *live = live.saturating_sub(size);
    }

    fn end(mut self) -> (Vec<StackId>, Course) {
        while self.due != u64::MAX {
            self.note();
        }
        (self.stacks, self.course)
    }
}

impl Sink for Watching {
    /// The index of its stack, and its size.
    type Block = (u32, u64);

    fn stack(&mut self, stack: StackId) {
        self.stack = stack;
    }

    fn allocated(&mut self, at: At, _: AllocFunction, size: u64) -> (u32, u64) {
        self.tick(at);
        self.add(size)
    }

    fn freed(&mut self, at: At, block: (u32, u64)) {
        self.tick(at);
        self.remove(block);
    }

    fn resized(&mut self, at: At, block: (u32, u64), size: u64) -> (u32, u64) {
        self.tick(at);
        self.remove(block);
        self.add(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::{By, Folding};
    use crate::invented::{Events, stacks};
    use crate::moment::TracePoint;
    use allocanary_names::FrameNames;

    #[test]
    fn the_sites_that_held_most_have_a_line_over_the_whole_trace() {
        let (table, ids) = stacks(&[&[0x10], &[0x20], &[0x30]]);
        let mut events = Events::new(TracePoint::at_time(470), 0);
        for (at, id) in ids.iter().enumerate() {
            events.new_block(0, *id, 0x1000 * (at as u64 + 1), 1);
        }
        let taken = events.taken();
        let groups = StackGroups::of(&taken, false, &mut FrameNames::of(&table), By::Function, &Folding::default());
        let span = GrowthSpan { from: 0, to: 470, words: "" };
        let mut watching = Watching::over(span);
        let mut make = |nanos, stack, size| {
            watching.stack(stack);
            watching.allocated(At { nanos, thread: 0 }, AllocFunction::Malloc, size)
        };
        let a = make(1, ids[0], 500);
        make(100, ids[1], 300);
        make(100, ids[2], 10);
        watching.freed(At { nanos: 205, thread: 0 }, a);
        let all = lines(watching, span, &taken, &groups, 2, 1.0);
        let [first, second] = &all[..] else { panic!("{all:?}") };
        assert_eq!((first.name.as_str(), second.name.as_str()), ("0x10", "0x20"));
        let at = |line: &SiteSeries, time: usize| line.points[time];
        assert_eq!(
            (at(first, 0), at(first, 1), at(first, 20), at(first, 21)),
            ((0, 0.0), (10, 500.0), (200, 500.0), (210, 0.0))
        );
        assert_eq!((at(second, 9).1, at(second, 10).1, at(second, TIMES - 1)), (0.0, 300.0, (470, 300.0)));
    }
}
