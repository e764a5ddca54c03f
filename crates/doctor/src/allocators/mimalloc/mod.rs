//! mimalloc.

mod advice;
mod remedies;
mod variables;

use allocanary_facts::mimalloc::{DESCRIPTOR, NAME};

use self::advice::takes_huge_pages;
use self::variables::FLAVOUR;
use crate::contract::{Marks, Part, Reads};
use crate::host::Surroundings;
use crate::judgement::Default;

pub(super) const PART: Part = Part {
    of: &DESCRIPTOR,
    usual: FLAVOUR,
    marks: Marks {
        symbols: &[("mi_version", |_| FLAVOUR), ("mi_malloc", |_| FLAVOUR)],
        by_texts: |texts| texts.contains(NAME).then_some((FLAVOUR, "mimalloc's messages")),
        library: Some((NAME, FLAVOUR)),
        preload: Some(FLAVOUR),
        ..Marks::NONE
    },
    variables: Reads {
        reader: variables::reader,
        assignments: variables::assignments,
        suspects: &["MIMALLOC"],
        ..Reads::NONE
    },
    defaults: Some(defaults),
    arena_settings: &[],
    advice: Some(advice::advice),
    remedies: Some(remedies::remedies),
};

fn defaults(at: &Surroundings) -> Default {
    let mut text = "a heap for each thread, whatever the processors".to_string();
    let huge = takes_huge_pages(&at.host.thp);
    if huge {
        text.push_str(&format!(
            "; transparent huge pages are `{}`, so each thread's heap takes whole pages of 2 MiB",
            at.host.thp
        ));
    }
    Default { allocator: NAME, arenas: None, text, oversized: huge }
}
