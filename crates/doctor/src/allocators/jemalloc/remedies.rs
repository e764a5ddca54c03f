//! What a process would save by settings of jemalloc. In: its heap, and the settings in force. Out: one remedy for the next start,
//! because one variable contains all settings.

use allocanary_heap::{Heap, Part};
use allocanary_text::units::Bytes;

use super::advice::{Considered, advise};
use crate::contract::Case;
use crate::remedy::{Gives, Remedy, Who};
use crate::subject::Subject;

pub(super) fn remedies(case: &Case, subject: &Subject, heap: &Heap) -> Vec<Remedy> {
    let of = |parts: &[Part]| -> u64 { parts.iter().map(|part| heap.parts.of(*part)).sum() };
    let usable = case.at.cpus.count() as usize;
    let kept = of(&[Part::FreePages, Part::LazyFree]);
    let rest = of(&[Part::Fragmentation, Part::Metadata, Part::Padding]);
    // In a measurement, fewer arenas alone kept more memory, because fewer of them decayed: 274 MiB instead of 162. So fewer arenas
    // are proposed only for memory that decay never returns.
    let arenas = heap.arenas.len() > usable && subject.matters(rest);
    let background_thread = subject.matters(kept);
    if !arenas && !background_thread {
        return Vec::new();
    }
    let Some(advice) = advise(case, Considered { arenas, background_thread }) else { return Vec::new() };
    let sets = |name: &str| advice.reasons.iter().any(|reason| reason.starts_with(name));
    let (fewer, thread) = (sets("narenas"), sets("background_thread"));
    let mut what = Vec::new();
    let mut evidence = Vec::new();
    if fewer {
        what.push(format!("{usable} arenas, as many as usable processors, in place of {} in use", heap.arenas.len()));
        evidence.push("What fewer arenas would keep cannot be told from a reading: try it on one replica.".to_string());
    }
    if thread {
        what.push("a thread of jemalloc that gives freed pages back".into());
        evidence.push(format!(
            "{} are free pages. Without the thread they go back only while the program allocates and frees.",
            Bytes(kept)
        ));
    }
    // Only the variable would change, from one that is ignored to one that is read.
    if what.is_empty() {
        return Vec::new();
    }
    vec![Remedy {
        id: match (fewer, thread) {
            (true, true) => "narenas,background_thread",
            (true, false) => "narenas",
            _ => "background_thread",
        }
        .into(),
        what: what.join("; "),
        who: Who::OperatorRestart,
        gives: Gives::Bound { bytes: if fewer { kept + rest } else { kept } },
        evidence: evidence.join(" "),
        cost: if fewer { "threads wait for each other if they allocate much".into() } else { String::new() },
        lines: case.lines(&advice),
    }]
}
