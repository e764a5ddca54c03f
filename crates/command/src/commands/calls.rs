//! Checks whether the calls that give memory back can be made. No thread is stopped. In: a reading. Out: the result for each heap.

use allocanary_doctor::remedies::{CallCheck, CallChecks, matters};
use allocanary_heap::Reading;
use allocanary_inside::give_back::check;
use allocanary_inside::give_back::plan::plan;
use allocanary_text::units::Bytes;

/// Checks the calls that would give back enough to be shown.
pub fn checked(reading: &Reading) -> CallChecks {
    let mut checks = CallChecks::default();
    let pid = reading.process.pid;
    // One line to paste makes the calls of all heaps, so their sum decides whether it is enough.
    let planned = plan(reading);
    let sum = planned.iter().filter_map(|one| one.forecast).sum();
    for one in planned.into_iter().filter(|one| matters(reading, sum) && one.forecast.is_some()) {
        let found = match (in_swap(reading), check(pid, one.remedy)) {
            (_, Err(refusal)) => CallCheck::Refused(refusal.reason()),
            (Some(why), _) => CallCheck::Refused(why),
            (None, Ok(Some(why))) => CallCheck::NotTried(why),
            (None, Ok(None)) => CallCheck::Passed,
        };
        checks.add(one.remedy.allocator, found);
    }
    checks
}

/// Why nothing is called while a part of the heap is in swap. `None` if no part is.
pub fn in_swap(reading: &Reading) -> Option<String> {
    let swapped: u64 = reading.heaps.iter().map(|heap| heap.swapped).sum();
    let why = || {
        format!(
            "{} of its heap are in swap, and the call would bring them back. `allocanary give-back {} --swapped` does it anyway",
            Bytes(swapped),
            reading.process.pid
        )
    };
    (swapped > 0).then(why)
}
