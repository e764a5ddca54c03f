//! Chooses the time at which the live blocks are examined, from the user's choice, the marks of a trace, and its events. It is a point
//! between two events.

use allocanary_trace::coder::AllocFunction;
use allocanary_trace::error::{Error, Result};
use allocanary_trace::format::{Marks, TraceEnd};
use allocanary_trace::merge::{At, Sink};
use allocanary_trace::stacks::Resident;

/// The moment that the user chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentChoice {
    /// The end of the load, if the resident pages were read there. Otherwise the moment with the most live bytes.
    Peak,
    /// The mark `idle`.
    Idle,
    /// The end of a recording that was ended from outside.
    End,
    /// Nanoseconds after the start; for a window, after its begin.
    At(u64),
}

/// The number of the mark at the end of the recording.
const END: u8 = 3;

/// A point of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePoint {
    /// The moment in words: `at the peak of live bytes`.
    pub words: &'static str,
    /// The short word for it: `peak`, `load_end`, `idle`, `end`, `time`.
    pub name: &'static str,
    /// Events until this time count.
    pub nanos: u64,
    /// The number of these events that count, from the first one on.
    pub events: u64,
    /// The mark at which the pages were read.
    mark: Option<u8>,
}

impl TracePoint {
    /// The wanted moment; by default `idle`, or the peak of a trace without this mark. `None` if the events must be searched for
    /// the most live bytes: see [`Peak`]. The end comes from [`TracePoint::at_end`]; here it is an error.
    pub fn of(wanted: Option<MomentChoice>, marks: &Marks, residents: &[Resident]) -> Result<Option<TracePoint>> {
        let wanted = wanted.unwrap_or(if marks.idle.is_some() { MomentChoice::Idle } else { MomentChoice::Peak });
        let is_read = |mark| residents.iter().any(|resident| resident.mark == mark);
        let moment = |words, name, nanos, mark| TracePoint { words, name, nanos, events: u64::MAX, mark };
        Ok(match (wanted, marks.idle, marks.peak) {
            (MomentChoice::At(nanos), ..) => Some(moment("at the time that was asked for", "time", nanos, None)),
            (MomentChoice::Idle, Some(nanos), _) => Some(moment("when idle", "idle", nanos, Some(2))),
            (MomentChoice::Idle, None, _) => {
                return Err(Error::new(
                    "--at idle: the trace has no such mark: it is set by `allocanary record` for a service (--ready, --load). \
                     Ask for --at peak, or for a time, such as --at 12s",
                ));
            }
            (MomentChoice::End, ..) => {
                return Err(Error::new(
                    "--at end: wanted a trace that was ended from outside, found that no pages were read at its end: `allocanary record` reads \
                     them with --window and --stack-sample, and of a service that is interrupted. Ask for --at peak, or for a time, such as --at 12s",
                ));
            }
            (MomentChoice::Peak, _, Some(nanos)) if is_read(1) => {
                Some(moment("at the end of the load", "load_end", nanos, Some(1)))
            }
            (MomentChoice::Peak, ..) => None,
        })
    }

    /// The end of a recording that was ended from outside, if the pages were read there. It is the default for a trace without the
    /// mark `idle`.
    pub fn at_end(end: Option<u64>, residents: &[Resident]) -> Option<TracePoint> {
        let nanos = end.filter(|_| residents.iter().any(|resident| resident.mark == END))?;
        Some(TracePoint { words: "at the end of the recording", name: "end", nanos, events: u64::MAX, mark: Some(END) })
    }

    /// The time at which a running process is read.
    pub(crate) fn now() -> TracePoint {
        TracePoint { words: "now", name: "now", nanos: 0, events: u64::MAX, mark: None }
    }

    /// The same moment, as a number of events: a replay stops after this many events, whatever their time.
    pub fn behind(&self, events: u64) -> TracePoint {
        TracePoint { nanos: u64::MAX, events, ..self.clone() }
    }

    /// The same moment of a recording that ended like this: a peak is the highest of what was recorded.
    pub(crate) fn of_recording(self, end: TraceEnd) -> TracePoint {
        match self.name {
            "peak" if end.is_early() => {
                TracePoint { words: "at the peak of live bytes, before the recording stopped", ..self }
            }
            _ => self,
        }
    }

    /// The pages that were resident at this moment.
    pub fn resident<'a>(&self, residents: &'a [Resident]) -> Option<&'a Resident> {
        residents.iter().find(|resident| Some(resident.mark) == self.mark)
    }
}

/// Searches for the most live bytes until the end of the load.
pub struct Peak {
    until: u64,
    events: u64,
    live: u64,
    most: u64,
    best: Option<TracePoint>,
}

impl Peak {
    /// A search until the end of the load, if it is marked.
    pub fn until(marks: &Marks) -> Peak {
        Peak { until: marks.peak.unwrap_or(u64::MAX), events: 0, live: 0, most: 0, best: None }
    }

    /// The result. A trace without an allocation has its peak at its start.
    pub fn moment(self) -> TracePoint {
        self.best.unwrap_or_else(|| Self::at(0, 0))
    }

    fn at(nanos: u64, events: u64) -> TracePoint {
        TracePoint { words: "at the peak of live bytes", name: "peak", nanos, events, mark: None }
    }

    fn add(&mut self, at: At, size: u64) {
        self.live = self.live.saturating_add(size);
        if self.live > self.most && at.nanos <= self.until {
            self.most = self.live;
            self.best = Some(Self::at(at.nanos, self.events));
        }
    }
}

impl Sink for Peak {
    type Block = u64;

    fn allocated(&mut self, at: At, _: AllocFunction, size: u64) -> u64 {
        self.events += 1;
        self.add(at, size);
        size
    }

    fn freed(&mut self, _: At, size: u64) {
        self.events += 1;
        self.live = self.live.saturating_sub(size);
    }

    fn resized(&mut self, at: At, old: u64, size: u64) -> u64 {
        self.events += 1;
        self.live = self.live.saturating_sub(old);
        self.add(at, size);
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_follows_from_the_marks_and_from_what_was_read() {
        let read = |mark| Resident { mark, ..Resident::default() };
        let marks = Marks { ready: Some(1), peak: Some(50), idle: Some(90) };
        let of = |wanted, marks: &Marks, residents: &[Resident]| TracePoint::of(wanted, marks, residents).unwrap();
        let idle = of(None, &marks, &[read(1), read(2)]).unwrap();
        assert_eq!((idle.name, idle.nanos), ("idle", 90));
        assert_eq!(idle.resident(&[read(1), read(2)]).map(|one| one.mark), Some(2));
        assert_eq!(
            of(Some(MomentChoice::Peak), &marks, &[read(1)]).map(|one| (one.name, one.nanos)),
            Some(("load_end", 50))
        );
        assert_eq!(of(Some(MomentChoice::Peak), &marks, &[read(2)]), None, "the most live bytes are looked for");
        let at = of(Some(MomentChoice::At(7)), &marks, &[read(1), read(2)]).unwrap();
        assert_eq!((at.nanos, at.resident(&[read(1), read(2)])), (7, None));
        let bare = Marks { ready: None, peak: None, idle: None };
        assert_eq!(of(None, &bare, &[]), None);
        let error = TracePoint::of(Some(MomentChoice::Idle), &bare, &[]).unwrap_err().to_string();
        assert!(error.contains("--at idle") && error.contains("--at peak"), "{error}");
        let error = TracePoint::of(Some(MomentChoice::End), &bare, &[]).unwrap_err().to_string();
        assert!(error.starts_with("--at end: wanted") && error.contains("--at peak"), "{error}");
    }

    #[test]
    fn the_end_of_a_recording_counts_where_the_pages_were_read() {
        let read = |mark| Resident { mark, ..Resident::default() };
        let end = TracePoint::at_end(Some(70), &[read(1), read(3)]).unwrap();
        assert_eq!((end.name, end.nanos, end.resident(&[read(1), read(3)])), ("end", 70, Some(&read(3))));
        assert_eq!((TracePoint::at_end(Some(70), &[read(2)]), TracePoint::at_end(None, &[read(3)])), (None, None));
    }

    #[test]
    fn the_peak_is_the_first_event_with_the_most_live_bytes_before_the_load_ends() {
        let mut peak = Peak::until(&Marks { ready: None, peak: Some(10), idle: None });
        let at = |nanos| At { nanos, thread: 0 };
        let a = peak.allocated(at(1), AllocFunction::Malloc, 100);
        let a = peak.resized(at(2), a, 300);
        peak.freed(at(2), a);
        peak.allocated(at(3), AllocFunction::Malloc, 300);
        peak.allocated(at(11), AllocFunction::Malloc, 999);
        assert_eq!(peak.moment(), TracePoint { events: 2, ..Peak::at(2, 2) });
    }
}
