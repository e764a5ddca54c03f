//! Finds what a process would save by settings of mimalloc, from its heap and the settings in force. The results are remedies for the next
//! start.

use allocanary_heap::{Heap, Part};
use allocanary_text::units::OneDecimal;

use super::advice::{advice, purge_advice};
use crate::contract::Case;
use crate::remedy::{Gives, Remedy, Who};
use crate::subject::Subject;

pub(super) fn remedies(case: &Case, subject: &Subject, heap: &Heap) -> Vec<Remedy> {
    [at_once(case, subject, heap), huge_pages(case, subject, heap)].into_iter().flatten().collect()
}

/// The remedy that gives freed pages back at once. By default they stay after the delay too, while no thread allocates or frees in their
/// heap.
fn at_once(case: &Case, subject: &Subject, heap: &Heap) -> Option<Remedy> {
    let bytes = [Part::FreePages, Part::LazyFree].iter().map(|part| heap.parts.of(*part)).sum();
    let advice = purge_advice(case).filter(|_| subject.matters(bytes))?;
    Some(Remedy {
        check: None,
        id: "purge_delay".into(),
        what: "mimalloc gives freed pages back at once".into(),
        who: Who::OperatorRestart,
        gives: Gives::Bound { bytes },
        evidence: format!(
            "{} are free pages. After the usual delay they go back only when a thread allocates or frees in the same heap.",
            OneDecimal(bytes)
        ),
        cost: "a system call for each page of blocks that is freed, and page faults when it is needed again".into(),
        lines: case.lines(&advice),
    })
}

/// The remedy of a heap without huge pages.
fn huge_pages(case: &Case, subject: &Subject, heap: &Heap) -> Option<Remedy> {
    let parts = [Part::Padding, Part::Fragmentation, Part::FreePages, Part::Metadata];
    let bytes = parts.iter().map(|part| heap.parts.of(*part)).sum();
    let huge = subject.process.parts.map_or(0, |parts| parts.huge);
    let advice = advice(case).filter(|_| huge > 0 && subject.matters(bytes))?;
    Some(Remedy {
        check: None,
        id: "allow_thp".into(),
        what: "no huge pages for the heap".into(),
        who: Who::OperatorRestart,
        gives: Gives::Bound { bytes },
        evidence: "With huge pages a thread's heap takes 2 MiB at a time. What it would take without them cannot be told from a reading."
            .into(),
        cost: "more page faults, and more misses of the table of pages".into(),
        lines: case.lines(&advice),
    })
}
