//! mimalloc.

mod remedies;
mod variables;

use allocanary_allocators::allocators::mimalloc::{DESCRIPTOR, NAME};

use super::{Case, Marks, Part, Reads};
use crate::advice::Advice;
use crate::defaults::Default;
use crate::flavour::Flavour;
use crate::host::Surroundings;
use crate::variables::settings;

const FLAVOUR: Flavour = Flavour::Named(NAME);

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
    advice: Some(advice),
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

/// Whether mimalloc gets huge pages. It requests them with madvise.
fn takes_huge_pages(thp: &str) -> bool {
    matches!(thp, "always" | "madvise")
}

fn advice(&Case { at, variables, subject, seen, .. }: &Case) -> Option<Advice> {
    let mut set = seen.code.clone();
    set.extend(settings(&variables::assignments(variables, &seen.libraries), NAME));
    let has_option = seen.libraries.has_option("allow_thp");
    if set.contains_key("allow_thp") || !takes_huge_pages(&at.host.thp) || has_option == Some(false) {
        return None;
    }
    let holds = if subject.is_none() { "; measured with 3.3.2, and 2.0 has no such option" } else { "" };
    Some(Advice {
        allocator: NAME,
        reasons: vec![format!(
            "allow_thp: with huge pages a thread's heap takes 2 MiB at a time (measured: 6.5 times the live bytes with \
             them, 2.7 times without{holds})"
        )],
        variable: ("MIMALLOC_ALLOW_THP".into(), "0".into()),
        also: None,
        install: Some("allocanary::install!(mimalloc, allow_thp = 0);".into()),
        fewer_arenas: false,
        proven: None,
    })
}
