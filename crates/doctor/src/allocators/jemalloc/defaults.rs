//! jemalloc's defaults on a host: its arenas, and a sentence.

use allocanary_facts::jemalloc::{MOST_ARENAS, NAME, PER_CORE};

use crate::host::Surroundings;
use crate::judgement::{Default, count};

/// jemalloc's default `narenas`.
pub(super) fn arenas(affinity: u32) -> u32 {
    u32::try_from(PER_CORE.on(affinity)).unwrap_or(u32::MAX).min(MOST_ARENAS)
}

pub(super) fn defaults(at: &Surroundings) -> Default {
    let affinity = at.cpus.affinity;
    let (arenas, usable) = (arenas(affinity), arenas(at.cpus.count()));
    let why = match affinity {
        1 => "the affinity mask has 1 processor".to_string(),
        _ => format!("4 for each of the {affinity} processors in the affinity mask"),
    };
    let quota = match arenas > usable {
        true => format!("; it does not see the CPU quota, under which {usable} would be in proportion"),
        false => String::new(),
    };
    Default {
        allocator: NAME,
        arenas: Some(arenas),
        text: format!("up to {}: {why}{quota}", count(arenas)),
        oversized: arenas > usable,
    }
}
