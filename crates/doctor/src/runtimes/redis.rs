//! Redis and related servers. They can defragment their values if they were built with the jemalloc in their sources.

use allocanary_text::units::OneDecimal;

use super::runtime::{Runtime, also_now, free, is_program};
use crate::process::ProcessFacts;
use crate::remedy::{Gives, PasteLine, Remedy, Who};
use crate::subject::Subject;

pub(super) const RUNTIME: Runtime =
    Runtime { is_here: |process| is_program(process, "redis") || is_program(process, "valkey"), remedies };

fn remedies(subject: &Subject, all: &mut Vec<Remedy>) {
    also_now(all, "redis-cli", "MEMORY PURGE".into());
    if !has_own_jemalloc(subject.process) {
        return;
    }
    let evidence = match free(subject) {
        Some(bytes) => format!("{} lie free between live blocks.", OneDecimal(bytes)),
        None if !subject.reading.undivided.is_empty() => {
            "Its heap is not analysed here; `INFO memory` has mem_fragmentation_bytes.".into()
        }
        None => return,
    };
    all.push(Remedy {
        check: None,
        id: "activedefrag".into(),
        what: "redis moves its values together while it runs".into(),
        who: Who::OperatorNow,
        gives: Gives::Unknown { find_out: "set it, and read the process again after some minutes".into() },
        evidence: format!("{evidence} From redis 4.0, with its own jemalloc."),
        cost: "processor time, within the limits of `active-defrag-cycle-max`".into(),
        lines: vec![
            PasteLine::new("redis-cli", "CONFIG SET activedefrag yes"),
            PasteLine::new("redis.conf", "activedefrag yes"),
        ],
    });
}

/// Whether it was built with that jemalloc. A distribution's build has the system's jemalloc, which lacks a function that redis needs
/// to move values.
fn has_own_jemalloc(process: &ProcessFacts) -> bool {
    process.identity.main.flavour.is_jemalloc() && process.identity.main.file == process.program
}
