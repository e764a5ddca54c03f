//! What a process would save by settings of mimalloc. In: its heap, and the settings in force. Out: remedies for the next
//! start.

use allocanary_heap::{Heap, Part};

use super::advice::advice;
use crate::contract::Case;
use crate::remedy::{Gives, Remedy, Who};
use crate::subject::Subject;

pub(super) fn remedies(case: &Case, subject: &Subject, heap: &Heap) -> Vec<Remedy> {
    let parts = [Part::Padding, Part::Fragmentation, Part::FreePages, Part::Metadata];
    let bytes = parts.iter().map(|part| heap.parts.of(*part)).sum();
    let huge = subject.process.parts.map_or(0, |parts| parts.huge);
    let Some(advice) = advice(case).filter(|_| huge > 0 && subject.matters(bytes)) else { return Vec::new() };
    vec![Remedy {
        id: "allow_thp".into(),
        what: "no huge pages for the heap".into(),
        who: Who::OperatorRestart,
        gives: Gives::Bound { bytes },
        evidence: "With huge pages a thread's heap takes 2 MiB at a time. What it would take without them cannot be told from a reading."
            .into(),
        cost: "more page faults, and more misses of the table of pages".into(),
        lines: case.lines(&advice),
    }]
}
