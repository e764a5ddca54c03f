//! Finds what a process would save by settings of jemalloc, from its heap and the settings in force. The result is one remedy for the next
//! start, because one variable contains all settings.

use allocanary_heap::{Heap, Part};
use allocanary_text::units::OneDecimal;

use super::PART;
use super::advice::{Considered, advise};
use crate::contract::Case;
use crate::judgement::{arenas_of, processors_of};
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
    let (fewer, thread, at_once) = (sets("narenas"), sets("background_thread"), sets("dirty_decay_ms"));
    let mut what = Vec::new();
    let mut evidence = Vec::new();
    if fewer {
        what.push(format!("jemalloc makes {}", arenas_of(usable)));
        let (now, may) = (heap.arenas.len(), processors_of(usable));
        evidence.push(
            format!("Now it uses {now}, and the process may use {may}. {}", PART.why_of_arenas(case)).trim_end().into(),
        );
        evidence.push("What fewer arenas would keep cannot be told from a reading: try it on one replica.".to_string());
    }
    if thread {
        what.push("a thread of jemalloc that gives freed pages back".into());
        evidence.push(format!(
            "{} are free pages. Without the thread they go back only while the program allocates and frees.",
            OneDecimal(kept)
        ));
    }
    if at_once {
        what.push("freed pages go back at once".into());
        evidence.push(format!(
            "{} are free pages. A background thread of jemalloc would not survive the forks of this program.",
            OneDecimal(kept)
        ));
    }
    // Only the name of the variable would change, to one that the program reads. This is no remedy.
    if what.is_empty() {
        return Vec::new();
    }
    vec![Remedy {
        check: None,
        id: [(fewer, "narenas"), (thread, "background_thread"), (at_once, "dirty_decay_ms")]
            .into_iter()
            .filter_map(|(is_set, name)| is_set.then_some(name))
            .collect::<Vec<_>>()
            .join(","),
        what: what.join("; "),
        who: Who::OperatorRestart,
        gives: Gives::Bound { bytes: if fewer { kept + rest } else { kept } },
        evidence: evidence.join(" "),
        cost: match (fewer, at_once) {
            (true, _) => "threads wait for each other if they allocate much".into(),
            (_, true) => {
                "a system call for each run of pages that is freed, and a page fault for each page that is needed again"
                    .into()
            }
            _ => String::new(),
        },
        lines: case.lines(&advice),
    }]
}
