//! Finds what a process would save by settings of glibc's malloc, from its heap and the settings in force. The results are remedies for the
//! next start.

use allocanary_facts::system::NAME;
use allocanary_facts::{MEMORY_BUDGET, THREAD_IDLE};
use allocanary_heap::{Heap, Part};
use allocanary_text::units::OneDecimal;

use super::PART;
use super::advice::advice;
use crate::contract::Case;
use crate::flavour::Flavour;
use crate::judgement::{arenas_of, processors_of};
use crate::remedy::{Gives, PasteLine, Remedy, Who};
use crate::seen::ProcessTraits;
use crate::subject::Subject;

pub(super) fn remedies(case: &Case, subject: &Subject, heap: &Heap) -> Vec<Remedy> {
    [thread_idle(case, subject, heap), arenas(case, subject, heap)].into_iter().flatten().collect()
}

/// The remedy `thread_idle`: threads that give memory back when they wait.
fn thread_idle(case: &Case, subject: &Subject, heap: &Heap) -> Option<Remedy> {
    let bytes = heap.remedies.first()?.bytes;
    let runtime_waits = case.subject.is_some_and(|all| all.first() == Some(&Flavour::Go));
    let has = case.seen.code.contains_key(THREAD_IDLE) || case.seen.code.contains_key(MEMORY_BUDGET);
    // The remedy does not reach pages of threads that have ended. A JVM has its own option for this. Go's threads do not wait in the C
    // library.
    if !subject.matters(bytes)
        || has
        || case.seen.is_single()
        || case.seen.jvm
        || runtime_waits
        || !subject.is_dynamic()
    {
        return None;
    }
    // Each thread also gives back the free end of its own arena, which a call of another thread does not reach.
    let bytes = bytes.max(heap.parts.of(Part::FreePages));
    let mut lines = vec![PasteLine::new("shell", format!("allocanary preload {NAME} --settings thread_idle=100ms"))];
    if case.is_rust() {
        lines.push(PasteLine::new(
            "Rust",
            "allocanary::install!(system); // and tuning::thread_idle() before a long wait",
        ));
    }
    Some(Remedy {
        check: None,
        id: THREAD_IDLE.into(),
        what: "threads give their free pages back when they have waited for 100 ms".into(),
        who: Who::OperatorRestart,
        gives: Gives::Bound { bytes },
        evidence: format!(
            "It gives back at most the free pages, {}, after each burst; less if threads wait outside of the C library. This line prints \
             what to paste.",
            OneDecimal(bytes)
        ),
        cost: "one page fault for each page that is needed again".into(),
        lines,
    })
}

/// The remedy of fewer arenas.
fn arenas(case: &Case, subject: &Subject, heap: &Heap) -> Option<Remedy> {
    // The threads that made the arenas may have ended.
    let seen = ProcessTraits { threads: None, ..case.seen.clone() };
    let case = &Case { seen: &seen, ..*case };
    let advice = advice(case)?;
    let wanted: usize = advice.variable.1.parse().ok()?;
    let parts = [Part::Fragmentation, Part::FreePages, Part::LazyFree, Part::Metadata, Part::Padding];
    let bytes: u64 = parts.iter().map(|part| heap.parts.of(*part)).sum();
    let of_threads = || heap.arenas.iter().filter(|arena| !arena.name.starts_with("main"));
    let beyond: u64 = of_threads().map(|arena| arena.resident).sum();
    let free: u64 = of_threads().map(|arena| arena.resident.saturating_sub(arena.parts.of(Part::Live))).sum();
    if heap.arenas.len() <= wanted || !subject.matters(bytes) || !subject.matters(free) {
        return None;
    }
    Some(Remedy {
        check: None,
        id: "arena_max".into(),
        what: format!("glibc makes at most {}", arenas_of(wanted)),
        who: Who::OperatorRestart,
        gives: Gives::Bound { bytes },
        evidence: format!(
            "Now it has {}, and the process may use {}. {}Of its {} {} are neither live nor cached, and {} are in arenas of threads. What \
             fewer arenas would keep cannot be told from a reading: try it on one replica.",
            heap.arenas.len(),
            processors_of(wanted),
            PART.why_of_arenas(case),
            OneDecimal(heap.resident),
            OneDecimal(bytes),
            OneDecimal(beyond)
        ),
        cost: "threads wait for each other if they allocate much".into(),
        lines: case.lines(&advice),
    })
}
