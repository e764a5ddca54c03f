//! The advice for mimalloc: the reason, and the variable.

use allocanary_facts::mimalloc::NAME;

use super::variables::assignments;
use crate::contract::Case;
use crate::judgement::Advice;
use crate::variables::settings;

/// Whether mimalloc gets huge pages. It requests them with madvise.
pub(super) fn takes_huge_pages(thp: &str) -> bool {
    matches!(thp, "always" | "madvise")
}

/// The advice to give freed pages back at once. `None` if the delay is set already, or if there is no such option.
pub(super) fn purge_advice(&Case { variables, seen, .. }: &Case) -> Option<Advice> {
    let mut set = seen.code.clone();
    set.extend(settings(&assignments(variables, &seen.libraries), NAME));
    if set.contains_key("purge_delay") || seen.libraries.has_option("purge_delay") == Some(false) {
        return None;
    }
    Some(Advice {
        allocator: NAME,
        reasons: vec!["purge_delay: 0 gives freed pages back at once".into()],
        variable: ("MIMALLOC_PURGE_DELAY".into(), "0".into()),
        also: None,
        install: Some("allocanary::install!(mimalloc, purge_delay = 0);".into()),
        fewer_arenas: false,
        proven: None,
    })
}

pub(super) fn advice(&Case { at, variables, subject, seen, .. }: &Case) -> Option<Advice> {
    let mut set = seen.code.clone();
    set.extend(settings(&assignments(variables, &seen.libraries), NAME));
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
