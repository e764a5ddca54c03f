//! Writes the sites and pages as an answer in one sentence, and as a word for a script.

use allocanary_text::units::Bytes;

use crate::fold::By;
use crate::sites::{AllocationSite, SiteReport};
use crate::under::Under;

/// A part of the heap below this share is not mentioned.
const WORTH: f64 = 0.1;
/// The most sites that are named.
const NAMED: usize = 3;

/// The state of the free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeMemoryState {
    /// Pinned by survivors of sites.
    Pinned,
    /// Empty pages that the allocator keeps.
    Empty,
    /// Both pinned bytes and empty pages.
    Both,
    /// Live blocks fill it.
    Requested,
    /// No block was live, and no page was known to be resident.
    Nothing,
}

impl FreeMemoryState {
    /// The state of most of the free memory.
    pub fn of(found: &SiteReport) -> FreeMemoryState {
        let resident = found.pages.resident();
        let is_worth = |bytes: u64| bytes as f64 >= WORTH * resident as f64;
        match (is_worth(found.pages.pinned()), found.pages.empty.is_some_and(is_worth)) {
            _ if resident == 0 => FreeMemoryState::Nothing,
            (true, true) => FreeMemoryState::Both,
            (true, false) => FreeMemoryState::Pinned,
            (false, true) => FreeMemoryState::Empty,
            (false, false) => FreeMemoryState::Requested,
        }
    }

    /// The word for a script.
    pub fn name(self) -> &'static str {
        match self {
            FreeMemoryState::Pinned => "pinned",
            FreeMemoryState::Empty => "empty",
            FreeMemoryState::Both => "both",
            FreeMemoryState::Requested => "requested",
            FreeMemoryState::Nothing => "nothing",
        }
    }
}

/// The sites to name: the smallest number that together pin half of the pinned bytes, at most three.
pub fn culprits(found: &SiteReport) -> Vec<&AllocationSite> {
    let pinned = found.pages.pinned();
    let mut sum = 0;
    let mut named = Vec::new();
    for site in found.sites.iter().filter(|site| site.share.pinned > 0).take(NAMED) {
        if sum >= pinned / 2 {
            break;
        }
        sum += site.share.pinned;
        named.push(site);
    }
    named
}

/// The answer in words, with the pinned bytes under another allocator if there is one.
pub fn sentence(found: &SiteReport, under: Option<&Under>) -> String {
    let pages = &found.pages;
    let (program, words) = (&found.program, found.moment.words);
    if found.freed_from_before.is_some() {
        return of_window(found, under);
    }
    let what = if pages.empty.is_some() { "the heap's resident pages" } else { "the pages that hold blocks" };
    let of = format!("{} of {} of {what}", Bytes(pages.pinned()), Bytes(pages.resident()));
    let empty = pages.empty.unwrap_or(0);
    let there = under.map_or(String::new(), |under| there(found, under));
    let pinned = || format!("{program}, {words}: {of} are pinned by survivors of {}{there}", names(found));
    match FreeMemoryState::of(found) {
        FreeMemoryState::Nothing => {
            format!("{program}, {words}: no block was alive, and no page is known to be resident.")
        }
        FreeMemoryState::Pinned => format!("{}.", pinned()),
        FreeMemoryState::Both => format!(
            "{}. Another {} are empty pages that nobody pins: the allocator keeps them.",
            pinned(),
            Bytes(empty)
        ),
        FreeMemoryState::Empty => format!(
            "{program}, {words}: no site is to blame. {} of {} of {what} are empty: the allocator keeps them. {} are pinned{there}.",
            Bytes(empty),
            Bytes(pages.resident()),
            Bytes(pages.pinned())
        ),
        FreeMemoryState::Requested => format!(
            "{program}, {words}: live blocks fill {} of {} of {what}. {}{} are pinned{there}.",
            Bytes(pages.live()),
            Bytes(pages.resident()),
            if pages.empty.is_some() { format!("{} are empty, and ", Bytes(empty)) } else { String::new() },
            Bytes(pages.pinned()),
        ),
    }
}

/// The answer for a trace of the last seconds only: bytes that seem free may belong to older blocks.
fn of_window(found: &SiteReport, under: Option<&Under>) -> String {
    let pages = &found.pages;
    let (program, words) = (&found.program, found.moment.words);
    let (pinned, resident, empty) = (Bytes(pages.pinned()), Bytes(pages.resident()), Bytes(pages.empty.unwrap_or(0)));
    let what = match pages.empty {
        Some(_) => "the resident pages that the window has used",
        None => "the pages that hold blocks of the window",
    };
    let there = under.map_or(String::new(), |under| there(found, under));
    let pinned_by = || {
        let names = names(found);
        format!(
            "{program}, {words}: at most {pinned} of {resident} of {what} are pinned by survivors of {names}{there}."
        )
    };
    let kept = "the allocator keeps them, or blocks from before the window are in them";
    let first = match FreeMemoryState::of(found) {
        FreeMemoryState::Nothing => format!(
            "{program}, {words}: no block of the window was alive, and no page that it has used is known to be resident."
        ),
        FreeMemoryState::Pinned => pinned_by(),
        FreeMemoryState::Both => format!("{} Another {empty} have no live block of the window: {kept}.", pinned_by()),
        FreeMemoryState::Empty => format!(
            "{program}, {words}: no site of the window is to blame. {empty} of {resident} of {what} have no live block of it: {kept}. \
             At most {pinned} are pinned{there}."
        ),
        FreeMemoryState::Requested => format!(
            "{program}, {words}: live blocks of the window fill {} of {resident} of {what}. At most {}{pinned} are pinned{there}.",
            Bytes(pages.live()),
            if pages.empty.is_some() { format!("{empty} are empty, and at most ") } else { String::new() },
        ),
    };
    match found.before_window() {
        Some(before) => format!("{first} {} have no block of the window: what is in them is not known.", Bytes(before)),
        None => first,
    }
}

/// `; under jemalloc it is 33.0 MiB of 60.1 MiB, by survivors of `` `createStringObject` ``. The sites are named only if they
/// differ.
fn there(found: &SiteReport, under: &Under) -> String {
    let (candidate, pages) = (&under.candidate, &under.found.pages);
    let of = format!("; under {candidate} it is {} of {}", Bytes(pages.pinned()), Bytes(pages.resident()));
    let named = names(&under.found);
    let is_worth = matches!(FreeMemoryState::of(&under.found), FreeMemoryState::Pinned | FreeMemoryState::Both)
        && named != names(found);
    if is_worth { format!("{of}, by survivors of {named}") } else { of }
}

/// `` `dictAddRaw` and `_sdsnewlen` ``.
fn names(found: &SiteReport) -> String {
    let quote =
        |site: &&AllocationSite| if found.by == By::Thread { site.name.clone() } else { format!("`{}`", site.name) };
    let names: Vec<String> = culprits(found).iter().map(quote).collect();
    match names.split_last() {
        None => "sites without a stack".into(),
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::TracePoint;
    use crate::pages::{Divided, Share};

    /// Sites by name with MiB that they pin; MiB that are empty.
    fn found(sites: &[(&str, u64)], live: u64, empty: Option<u64>) -> SiteReport {
        let share = |pinned: u64| Share { pinned: pinned << 20, ..Share::default() };
        let site = |(name, pinned): &(&str, u64)| AllocationSite {
            name: (*name).into(),
            share: share(*pinned),
            ..AllocationSite::default()
        };
        let mut shares: Vec<Share> = sites.iter().map(|(_, pinned)| share(*pinned)).collect();
        shares.push(Share { live: live << 20, ..Share::default() });
        let holding = live + sites.iter().map(|(_, pinned)| pinned).sum::<u64>();
        SiteReport {
            program: "redis-server".into(),
            moment: TracePoint::at_time(0),
            nanos: 0,
            by: By::Function,
            sites: sites.iter().map(site).collect(),
            pages: Divided { shares, holding: holding << 20, empty: empty.map(|empty| empty << 20), outside: None },
            span: None,
            freed_from_before: None,
            one_in: None,
            wrappers: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn those_who_pin_half_are_named() {
        let said = sentence(&found(&[("dictAddRaw", 20), ("_sdsnewlen", 18), ("main", 11)], 50, Some(8)), None);
        assert_eq!(
            said,
            "redis-server, at the time that was asked for: 49.0 MiB of 107 MiB of the heap's resident pages are pinned by survivors of \
             `dictAddRaw` and `_sdsnewlen`."
        );
        let said = sentence(
            &found(&[("a", 10), ("b", 10), ("c", 10), ("d", 10), ("e", 10), ("f", 10), ("g", 10)], 0, None),
            None,
        );
        assert!(
            said.contains("70.0 MiB of the pages that hold blocks") && said.ends_with("of `a`, `b` and `c`."),
            "{said}"
        );
    }

    #[test]
    fn the_innocent_are_not_blamed() {
        let one = found(&[("site_b", 2)], 1, Some(100));
        assert_eq!(FreeMemoryState::of(&one), FreeMemoryState::Empty);
        let said = sentence(&one, None);
        assert!(said.contains("no site is to blame. 100 MiB of 103 MiB") && !said.contains("site_b"), "{said}");
        let both = found(&[("site_b", 50)], 1, Some(50));
        assert_eq!(FreeMemoryState::of(&both), FreeMemoryState::Both);
        assert!(
            sentence(&both, None)
                .ends_with("Another 50.0 MiB are empty pages that nobody pins: the allocator keeps them.")
        );
        assert_eq!(FreeMemoryState::of(&found(&[("a", 1)], 90, Some(1))), FreeMemoryState::Requested);
        assert_eq!(FreeMemoryState::of(&found(&[], 0, None)), FreeMemoryState::Nothing);
    }

    /// Blocks from before the window may have the bytes that seem free.
    #[test]
    fn of_a_window_nothing_is_claimed_that_older_blocks_may_explain() {
        let windowed = |sites: &[(&str, u64)], live, empty: Option<u64>| {
            let mut found = SiteReport { freed_from_before: Some(7), ..found(sites, live, empty) };
            found.pages.outside = empty.map(|_| 33 << 20);
            found
        };
        let said = |sites: &[(&str, u64)], live, empty| sentence(&windowed(sites, live, empty), None);
        assert_eq!(
            said(&[("site_a", 50)], 1, Some(50)),
            "redis-server, at the time that was asked for: at most 50.0 MiB of 101 MiB of the resident pages that the window has used are \
             pinned by survivors of `site_a`. Another 50.0 MiB have no live block of the window: the allocator keeps them, or blocks from \
             before the window are in them. 33.0 MiB have no block of the window: what is in them is not known."
        );
        assert_eq!(
            said(&[("site_a", 50)], 1, None),
            "redis-server, at the time that was asked for: at most 50.0 MiB of 51.0 MiB of the pages that hold blocks of the window are \
             pinned by survivors of `site_a`."
        );
        let kept = said(&[("site_b", 2)], 1, Some(100));
        assert!(
            kept.contains("no site of the window is to blame. 100 MiB of 103 MiB") && !kept.contains("site_b"),
            "{kept}"
        );
        assert!(kept.contains("blocks from before the window are in them. At most 2.00 MiB are pinned."), "{kept}");
        let live = said(&[("a", 1)], 90, Some(1));
        assert!(
            live.contains("fill 90.0 MiB of 92.0 MiB")
                && live.contains("At most 1.00 MiB are empty, and at most 1.00 MiB are pinned."),
            "{live}"
        );
        assert!(said(&[], 0, None).contains("no block of the window was alive"));
        let under = Under { candidate: "mimalloc".into(), found: found(&[("site_a", 9)], 1, Some(0)) };
        let there = sentence(&windowed(&[("site_a", 50)], 1, Some(1)), Some(&under));
        assert!(there.contains("`site_a`; under mimalloc it is 9.00 MiB of 10.0 MiB."), "{there}");
    }

    #[test]
    fn another_allocator_is_told_in_the_same_sentence_with_its_sites_where_they_are_others() {
        let under = |sites: &[(&str, u64)], live, empty| Under {
            candidate: "jemalloc:narenas=1".into(),
            found: found(sites, live, Some(empty)),
        };
        let own = found(&[("dictAddRaw", 49)], 50, Some(8));
        let other = under(&[("createStringObject", 33), ("dictAddRaw", 1)], 50, 0);
        assert!(
            sentence(&own, Some(&other)).ends_with(
                "49.0 MiB of 107 MiB of the heap's resident pages are pinned by survivors of `dictAddRaw`; under jemalloc:narenas=1 it is \
                 34.0 MiB of 84.0 MiB, by survivors of `createStringObject`."
            ),
            "{}",
            sentence(&own, Some(&other))
        );
        let same = sentence(&own, Some(&under(&[("dictAddRaw", 33)], 50, 0)));
        assert!(same.ends_with("; under jemalloc:narenas=1 it is 33.0 MiB of 83.0 MiB."), "{same}");
        let innocent = sentence(&own, Some(&under(&[("x", 1)], 50, 100)));
        assert!(innocent.ends_with("it is 1.00 MiB of 151 MiB."), "no site is to blame there: {innocent}");
        let kept = sentence(&found(&[("x", 1)], 1, Some(100)), Some(&other));
        assert!(
            kept.contains("1.00 MiB are pinned; under jemalloc:narenas=1 it is 34.0 MiB of 84.0 MiB, by"),
            "{kept}"
        );
        let live = sentence(&found(&[("a", 1)], 90, Some(1)), Some(&other));
        assert!(live.contains("1.00 MiB are empty, and 1.00 MiB are pinned; under jemalloc:narenas=1 it is"), "{live}");
    }
}
