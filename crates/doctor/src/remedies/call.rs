//! The remedy of calls that make a process's heaps give free memory back now. One remedy contains all heaps whose call can be made, because
//! one command makes all calls. Each heap whose call cannot be made has its own remedy.

use allocanary_heap::{Heap, PartsCertainty, Reading, RemedyForecast};

use crate::call_check::{CallCheck, CallChecks};
use crate::remedy::{Gives, PasteLine, Remedy, Who};
use crate::subject::matters;

/// The remedies. One that gives too little is left out. A call that cannot be made is included, because users who know it would ask.
pub(super) fn remedies(reading: &Reading, checks: &CallChecks) -> Vec<Remedy> {
    let known = |heap: &&Heap| heap.sure != PartsCertainty::NotKnown;
    // If a heap changes too fast for a walk, the bytes that go back have changed too, so they are only a bound.
    let forecast = |heap: &'_ Heap| {
        let one = heap.remedies.first().filter(|one| one.bytes > 0)?;
        Some(RemedyForecast { at_most: one.at_most || heap.copied.is_some(), ..one.clone() })
    };
    let all = reading.heaps.iter().filter(known).filter_map(|heap| Some((heap.allocator.as_str(), forecast(heap)?)));
    let is_refused = |(allocator, _): &(&str, RemedyForecast)| matches!(checks.of(allocator), CallCheck::Refused(_));
    let (refused, can): (Vec<_>, Vec<_>) = all.partition(is_refused);
    let groups = std::iter::once(can).chain(refused.into_iter().map(|one| vec![one]));
    groups.filter_map(|heaps| remedy(reading, &heaps, checks)).collect()
}

/// The remedy for these heaps; `None` if their calls would give back too little together.
fn remedy(reading: &Reading, heaps: &[(&str, RemedyForecast)], checks: &CallChecks) -> Option<Remedy> {
    let bytes = heaps.iter().map(|(_, forecast)| forecast.bytes).sum();
    if !matters(reading, bytes) {
        return None;
    }
    let (gives, counted) = match heaps.iter().any(|(_, forecast)| forecast.at_most) {
        false => (Gives::Exact { bytes }, "These pages were counted one by one"),
        true => (Gives::Bound { bytes }, "A part of these pages may stay"),
    };
    let checks = heaps.iter().map(|(allocator, _)| checks.of(allocator));
    // If the check of one heap is not complete, that of the sum is not either.
    let check = checks.reduce(|one, other| if one == CallCheck::Passed { other } else { one })?;
    let names = |of: fn(&(&str, RemedyForecast)) -> String| heaps.iter().map(of).collect::<Vec<_>>().join(" and ");
    let allocators = names(|(allocator, _)| allocator.to_string());
    let their = if heaps.len() == 1 { "its" } else { "their" };
    let line = PasteLine::new("shell", format!("allocanary give-back {}", reading.process.pid));
    Some(Remedy {
        id: "give-back".into(),
        what: format!("have {allocators} give {their} free pages back, without a restart"),
        who: Who::OperatorNow,
        gives,
        evidence: format!(
            "A thread of the process calls {} while it waits. {counted}.",
            names(|(_, forecast)| format!("`{}`", forecast.name))
        ),
        cost: "pages that the program needs again cost a page fault each".into(),
        lines: if matches!(check, CallCheck::Refused(_)) { Vec::new() } else { vec![line] },
        check: Some(check),
    })
}
