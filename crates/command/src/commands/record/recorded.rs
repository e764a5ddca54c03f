//! The result of recording a program. In: how the program ended. Out: the marks and the resident pages for its traces.

use allocanary_rows::Moment;
use allocanary_study::program::Residents;
use allocanary_trace::stacks::Resident;

/// A program that was recorded.
#[derive(Default)]
pub(super) struct Recorded {
    /// Its exit code, or [`INTERRUPTED`].
    pub(super) code: u8,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
    /// The moments at which it was ready, its load ended, and it was idle, in nanoseconds of the monotonic clock; 0 for
    /// none.
    pub(super) marks: [u64; 3],
    /// When the recording was ended from outside, in nanoseconds of the same clock. 0 if it was not ended from outside,
    /// or if the pages were not read then.
    pub(super) end: u64,
    /// The resident pages of each process: when the load ended, when the program was idle, and when the recording was
    /// ended from outside.
    pub(super) residents: Vec<Residents>,
}

/// The exit code after Ctrl-C.
pub(super) const INTERRUPTED: u8 = 130;

/// The resident pages of one process, as its trace has them.
pub(super) fn residents(pid: u32, all: &[Residents]) -> Vec<Resident> {
    let of = all.iter().filter(|residents| residents.pid == pid);
    of.map(|residents| Resident { mark: mark(residents.moment), ranges: residents.ranges.clone() }).collect()
}

/// The number of a mark in a trace.
pub(super) fn mark(moment: Option<Moment>) -> u8 {
    match moment {
        None => 3,
        Some(Moment::Idle) => 2,
        Some(Moment::Peak) => 1,
        Some(_) => 0,
    }
}
