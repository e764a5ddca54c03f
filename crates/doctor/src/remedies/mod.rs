//! Collects what to do about a process's memory, and what each step would give. The first remedy is the one that certainly gives the most.
//! `heap`, `doctor`, `give-back` and `allocanary PROCESS` show them with the same words.

mod call;
mod conclusion;
mod study;

use allocanary_heap::{Heap, PartsCertainty, Reading};

use crate::allocators::part;
use crate::contract::Case;
use crate::judgement::Advice;
use crate::process::ProcessFacts;
use crate::runtimes;
use crate::subject::Subject;

pub use crate::call_check::{CallCheck, CallChecks};
pub use crate::remedy::{Gives, PasteLine, Remedy, Who};
pub use crate::subject::matters;
pub use conclusion::conclusion;

/// Every remedy that gives something here, or whose gain must be measured. Without a process (for a saved reading), only the remedies that
/// follow from the memory alone. `checks` say which calls can be made.
pub fn remedies(reading: &Reading, process: Option<&ProcessFacts>, checks: &CallChecks) -> Vec<Remedy> {
    let mut all = call::remedies(reading, checks);
    if let Some(process) = process {
        let subject = Subject { reading, process };
        for runtime in runtimes::ALL.iter().filter(|runtime| (runtime.is_here)(process)) {
            (runtime.remedies)(&subject, &mut all);
        }
        all.extend(of_settings(&subject));
    }
    all.extend(study::remedy(reading, process));
    // Known gains come before gains that must be measured. Remedies of equal rank keep the order in which they were added: first those for
    // now, then those for the next start.
    let ranks: Vec<_> = all.iter().map(|one| one.rank(&all)).collect();
    let mut ranked: Vec<_> = ranks.into_iter().zip(all).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, one)| one).collect()
}

/// The remedies by settings of the allocators.
fn of_settings(subject: &Subject) -> Vec<Remedy> {
    let Subject { reading, process } = subject;
    let flavours = process.identity.flavours();
    let mut all = Vec::new();
    for &flavour in &flavours {
        let Some(allocator) = flavour.allocator() else { continue };
        let Some(part) = part(allocator.name) else { continue };
        let case = Case {
            at: &process.surroundings,
            variables: &process.variables,
            flavour,
            subject: Some(&flavours),
            seen: &process.seen,
        };
        let divided = |heap: &&Heap| heap.allocator == allocator.heap && heap.sure != PartsCertainty::NotKnown;
        let heaps: Vec<&Heap> = reading.heaps.iter().filter(divided).collect();
        match (heaps.as_slice(), part.remedies, part.advice) {
            ([], _, Some(advice)) => {
                all.extend(advice(&case).map(|advice| not_divided(&case, &advice, allocator.heap)))
            }
            (heaps, Some(remedies), _) => all.extend(heaps.iter().flat_map(|heap| remedies(&case, subject, heap))),
            _ => {}
        }
    }
    all
}

/// The remedy by settings for an allocator whose heap is not analysed: its gain is not known.
fn not_divided(case: &Case, advice: &Advice, heap: &str) -> Remedy {
    Remedy {
        id: advice.allocator.into(),
        what: format!("settings of {heap}"),
        who: Who::OperatorRestart,
        gives: Gives::Unknown {
            find_out: "its heap is not analysed here; try it on one replica, or `allocanary run` measures it".into(),
        },
        evidence: format!("{}.", advice.reasons.join(". ")),
        cost: String::new(),
        lines: case.lines(advice),
        check: None,
    }
}

#[cfg(test)]
mod tests;
