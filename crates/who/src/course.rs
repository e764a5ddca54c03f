//! Records the live bytes of each stack or thread at even times of a trace, and adds them up for each site. The memory needed depends on
//! the stacks: a stack has an entry for each time at which its live bytes differed from the time before.

use allocanary_trace::format::Marks;
use allocanary_trace::reader::Trace;

/// Live bytes are noted at this many times, including the begin and the end of the span.
pub const TIMES: usize = 48;

/// The shortest span, in nanoseconds, in which growth is measured, unless the mark `ready` says when the start ended. A program that ends
/// earlier may only have started.
pub const LEAST: u64 = 5_000_000_000;

/// The part of a trace in which growth is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthSpan {
    /// Its begin, in nanoseconds after the start.
    pub from: u64,
    /// Its end.
    pub to: u64,
    /// Begin and end in words.
    pub words: &'static str,
}

impl GrowthSpan {
    /// The span of a trace. `None` for a window, and for a recorder that was put into a running process: frees of older blocks are missing,
    /// so a steady site would seem to grow.
    pub fn of(trace: &Trace) -> Option<GrowthSpan> {
        let length = trace.header.nanos(trace.header.last_ticks);
        (!trace.lacks_begin()).then(|| GrowthSpan::between(&trace.header.marks, length)).flatten()
    }

    /// Computes the span. It begins at the mark `ready`, or after the first quarter, because a program fills its tables while it starts. It
    /// ends at the end of the load, because an idle service leaks nothing. Without this mark it ends before the last tenth, because many
    /// programs free everything before they end. `None` if the span is empty, or if there is no `ready` and it is shorter than [`LEAST`].
    pub fn between(marks: &Marks, length: u64) -> Option<GrowthSpan> {
        let to = marks.peak.filter(|peak| (1..=length).contains(peak));
        let end = to.unwrap_or(length - length / 10);
        let ready = marks.ready.filter(|ready| *ready < end);
        let words = match (ready, to) {
            (Some(_), Some(_)) => "from ready until the end of the load",
            (Some(_), None) => "from ready until the last tenth of the trace",
            (None, Some(_)) => "after the first quarter of the time until the end of the load",
            (None, None) => "between the first quarter and the last tenth of the trace",
        };
        let from = ready.unwrap_or(to.unwrap_or(length) / 4);
        let least = if ready.is_some() { 1 } else { LEAST };
        (end.saturating_sub(from) >= least).then_some(GrowthSpan { from, to: end, words })
    }

    /// The time with this number, which is below [`TIMES`].
    pub fn at(&self, time: usize) -> u64 {
        let part = u128::from(self.to - self.from) * time as u128 / (TIMES as u128 - 1);
        self.from + part as u64
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        (self.to - self.from) as f64 / 1e9
    }
}

/// Live bytes at even times.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// The span; `None` if growth cannot be measured.
    pub span: Option<GrowthSpan>,
    /// The number of times that have been noted.
    noted: usize,
    steps: Vec<Step>,
}

/// A change of a stack's or thread's live bytes since the time before.
#[derive(Clone, Copy, Debug)]
struct Step {
    of: u32,
    time: u32,
    change: i64,
}

impl Course {
    /// An empty course over a span.
    pub fn over(span: Option<GrowthSpan>) -> Course {
        Course { span, ..Course::default() }
    }

    /// The next time to note; the largest number if there is none.
    pub fn due(&self) -> u64 {
        self.span.filter(|_| self.noted < TIMES).map_or(u64::MAX, |span| span.at(self.noted))
    }

    /// Notes the present time: for each stack or thread that changed, the difference of its live bytes to the time
    /// before.
    pub fn note(&mut self, changes: impl Iterator<Item = (u32, i64)>) {
        let time = self.noted as u32;
        self.steps.extend(changes.map(|(of, change)| Step { of, time, change }));
        self.noted += 1;
    }

    /// Live bytes of each group at each time. `group_of` returns the group of a stack or thread.
    pub fn sums(&self, groups: usize, group_of: impl Fn(u32) -> Option<usize>) -> Vec<[f64; TIMES]> {
        let mut changes = vec![[0_i64; TIMES]; groups];
        for step in &self.steps {
            if let Some(group) = group_of(step.of) {
                let change = &mut changes[group][step.time as usize];
                *change = change.wrapping_add(step.change);
            }
        }
        let sums = |changes: [i64; TIMES]| {
            let mut live = 0_i64;
            changes.map(|change| {
                live = live.wrapping_add(change);
                live as f64
            })
        };
        changes.into_iter().map(sums).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_measured_after_the_start_and_while_there_is_load() {
        const S: u64 = 1_000_000_000;
        let of = |ready: Option<u64>, peak: Option<u64>, length| {
            let marks = Marks { ready: ready.map(|at| at * S), peak: peak.map(|at| at * S), idle: None };
            GrowthSpan::between(&marks, length).map(|span| (span.from / S, span.to / S, span.words))
        };
        let span = |ready, peak| of(ready, peak, 1000 * S);
        assert_eq!(span(None, None), Some((250, 900, "between the first quarter and the last tenth of the trace")));
        assert_eq!(span(Some(100), None), Some((100, 900, "from ready until the last tenth of the trace")));
        assert_eq!(span(Some(100), Some(600)), Some((100, 600, "from ready until the end of the load")));
        assert_eq!(span(None, Some(600)).map(|(from, to, _)| (from, to)), Some((150, 600)));
        assert_eq!(span(Some(600), Some(600)).map(|(from, ..)| from), Some(150), "a load without a length");
        assert_eq!(span(None, Some(2000)).map(|(_, to, _)| to), Some(900), "a mark behind the end");
        assert_eq!(GrowthSpan::between(&Marks::default(), 0), None);
        // For a trace of 8 s the span is 5.2 s, for one of 7 s it is 4.55 s.
        assert!(of(None, None, 8 * S).is_some() && of(None, None, 7 * S).is_none(), "all of it may be the start");
        assert!(of(None, Some(7), 9 * S).is_some() && of(None, Some(6), 9 * S).is_none());
        assert_eq!(
            of(Some(1), Some(2), 9 * S).map(|(from, to, _)| (from, to)),
            Some((1, 2)),
            "the start ends at ready"
        );
    }

    #[test]
    fn groups_have_the_sums_of_their_stacks() {
        let mut course = Course::over(Some(GrowthSpan { from: 47, to: 188, words: "" }));
        assert_eq!(course.due(), 47);
        course.note([(0, 10), (2, 7)].into_iter());
        assert_eq!(course.due(), 50);
        course.note([(0, -4), (1, 5)].into_iter());
        (2..TIMES).for_each(|_| course.note(std::iter::empty()));
        assert_eq!(course.due(), u64::MAX, "all are noted");
        let sums = course.sums(1, |of| (of < 2).then_some(0));
        assert_eq!((sums[0][0], sums[0][1], sums[0][TIMES - 1]), (10.0, 11.0, 11.0));
        assert_eq!(Course::over(None).due(), u64::MAX);
    }
}
