//! The call that makes a heap give free memory back now. In: a heap. Out: the remedy with its forecast.

use allocanary_heap::{Heap, PartsCertainty, Reading};

use super::{CallCheck, CallChecks};
use crate::remedy::{Gives, PasteLine, Remedy, Who};
use crate::subject::matters;

/// The remedy; `None` if the call would give back too little. One that cannot be done is told too: who knows the call would ask.
pub(super) fn remedy(reading: &Reading, heap: &Heap, checks: &CallChecks) -> Option<Remedy> {
    let forecast = heap.remedies.first().filter(|_| heap.sure != PartsCertainty::NotKnown)?;
    if !matters(reading, forecast.bytes) {
        return None;
    }
    let (bytes, allocator) = (forecast.bytes, &heap.allocator);
    let (gives, counted) = match forecast.at_most {
        false => (Gives::Exact { bytes }, "These pages were counted one by one"),
        true => (Gives::Bound { bytes }, "A part of these pages may stay"),
    };
    let check = checks.of(allocator);
    let line = PasteLine::new("shell", format!("allocanary give-back {}", reading.process.pid));
    Some(Remedy {
        id: "give-back".into(),
        what: format!("have {allocator} give its free pages back, without a restart"),
        who: Who::OperatorNow,
        gives,
        evidence: format!("A thread of the process calls `{}` while it waits. {counted}.", forecast.name),
        cost: "pages that the program needs again cost a page fault each".into(),
        lines: if matches!(check, CallCheck::Refused(_)) { Vec::new() } else { vec![line] },
        check: Some(check),
    })
}
