//! Compares the sites of an earlier and a later trace: how much each site has grown, and which sites are beyond a limit.

use std::collections::HashSet;

use crate::same::{SiteKey, names, pairs};
use crate::sites::SiteReport;

/// The short word of a moment that the user gives.
pub const TIME: &str = "time";

/// The bytes that a site holds: its live bytes, and those that it pins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Bytes of its live blocks.
    pub live: u64,
    /// Bytes that it pins.
    pub pinned: u64,
}

impl Holds {
    /// Live and pinned bytes together.
    pub fn all(self) -> u64 {
        self.live.saturating_add(self.pinned)
    }
}

/// The sites of an earlier trace, with which a later one is compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EarlierSites {
    /// The moment's short word, see [`crate::TracePoint::name`].
    pub at: String,
    /// Nanoseconds after the start, if the user gave a time.
    pub time: Option<u64>,
    /// The grouping's name.
    pub by: String,
    /// Resident bytes of the heap; only those of pages with blocks if the resident pages were not known.
    pub resident: u64,
    /// Bytes of empty pages; `None` if the resident pages were not known.
    pub empty: Option<u64>,
    /// Each site, and the bytes that it holds.
    pub sites: Vec<(SiteKey, Holds)>,
}

impl EarlierSites {
    /// The sites of a trace.
    pub fn of(found: &SiteReport) -> EarlierSites {
        let by = crate::fold::BYS.iter().find(|(_, by)| *by == found.by).map_or("", |(name, _)| name);
        let holds = |site: &crate::AllocationSite| Holds { live: site.live, pinned: site.share.pinned };
        EarlierSites {
            at: found.moment.name.into(),
            time: (found.moment.name == TIME).then_some(found.moment.nanos),
            by: by.into(),
            resident: found.pages.resident(),
            empty: found.pages.empty,
            sites: found.sites.iter().map(|site| (SiteKey::of(&site.name, &site.frame), holds(site))).collect(),
        }
    }
}

/// A site in both traces. A site that only one trace has holds 0 bytes in the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteChange {
    /// The name of the site.
    pub name: String,
    /// The program or library of the site.
    pub module: String,
    /// In the earlier trace.
    pub old: Holds,
    /// In the later one.
    pub new: Holds,
}

impl SiteChange {
    /// The growth of the bytes that it holds.
    pub fn growth(&self) -> i128 {
        i128::from(self.new.all()) - i128::from(self.old.all())
    }
}

/// All sites of both, the one that grew most first. Sites that hold nothing in either are left out.
pub fn changes(old: &EarlierSites, new: &EarlierSites) -> Vec<SiteChange> {
    let holding = |of: &EarlierSites| of.sites.iter().filter(|(_, holds)| holds.all() > 0).cloned().collect::<Vec<_>>();
    let (old, new) = (holding(old), holding(new));
    let keys = |of: &[(SiteKey, Holds)]| of.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let pairs = pairs(&keys(&old), &keys(&new));
    let paired: HashSet<usize> = pairs.iter().copied().flatten().collect();
    let before = |at: &Option<usize>| at.map_or(Holds::default(), |at| old[at].1);
    let stay = new.iter().zip(&pairs).map(|((key, holds), at)| (key, before(at), *holds));
    let gone = old.iter().enumerate().filter(|(at, _)| !paired.contains(at));
    let gone = gone.map(|(_, (key, holds))| (key, *holds, Holds::default()));
    let rows: Vec<(&SiteKey, Holds, Holds)> = stay.chain(gone).collect();
    let names = names(&rows.iter().map(|(key, ..)| *key).collect::<Vec<_>>());
    let change = |((key, old, new), name): ((&SiteKey, Holds, Holds), String)| SiteChange {
        name,
        module: key.module.clone(),
        old,
        new,
    };
    let mut all: Vec<SiteChange> = rows.into_iter().zip(names).map(change).collect();
    all.sort_by(|a, b| b.growth().cmp(&a.growth()).then_with(|| a.name.cmp(&b.name)));
    all
}

/// Whether a site grew by more than this share of the old heap. The share is of the heap and not of the site, because a site of a
/// few KiB doubles easily.
pub fn is_beyond(change: &SiteChange, old: &EarlierSites, most: f64) -> bool {
    change.growth() as f64 > most * old.resident as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invented::{Events, stacks};
    use crate::moment::TracePoint;
    use crate::sites::find;
    use crate::{By, Folding};
    use allocanary_names::FrameNames;

    /// The result for a synthetic trace: one page with a block of each of these sites and sizes. A site is its return address.
    fn found(blocks: &[(u64, u64)]) -> SiteReport {
        let pcs: Vec<[u64; 1]> = blocks.iter().map(|(pc, _)| [*pc]).collect();
        let (stacks, ids) = stacks(&pcs.iter().map(|pc| &pc[..]).collect::<Vec<_>>());
        let mut events = Events::new(TracePoint::at_time(9), 10);
        for (at, (id, (_, size))) in ids.iter().zip(blocks).enumerate() {
            events.new_block(0, *id, (at as u64 + 1) * 0x10_0000, *size);
        }
        find("service", &events.taken(), None, &mut FrameNames::of(&stacks), By::Function, &Folding::default())
    }

    fn key(name: &str, module: &str) -> SiteKey {
        SiteKey { name: name.into(), module: module.into(), ..SiteKey::default() }
    }

    fn told(changes: &[SiteChange]) -> Vec<(&str, i128)> {
        changes.iter().map(|change| (change.name.as_str(), change.growth())).collect()
    }

    #[test]
    fn a_site_s_growth_is_of_what_it_holds_in_both_traces() {
        // Whole pages, with live and pinned bytes.
        let old = EarlierSites::of(&found(&[(0x10, 4096), (0x20, 100), (0x30, 8192)]));
        let new = EarlierSites::of(&found(&[(0x10, 4000), (0x20, 8192), (0x40, 50)]));
        assert_eq!((old.resident, old.at.as_str(), old.by.as_str()), (16384, "time", "function"));
        let all = changes(&old, &new);
        assert_eq!(told(&all), [("0x20", 4096), ("0x40", 4096), ("0x10", 0), ("0x30", -8192)]);
        let [grown, added, same, gone] = &all[..] else { panic!("{all:?}") };
        assert_eq!((grown.old, grown.new), (Holds { live: 100, pinned: 3996 }, Holds { live: 8192, pinned: 0 }));
        assert_eq!((added.old, gone.new), (Holds::default(), Holds::default()));
        assert_eq!(same.new, Holds { live: 4000, pinned: 96 }, "a page is held by less, and is held all the same");
    }

    #[test]
    fn a_gate_is_a_share_of_the_old_heap() {
        let old = EarlierSites::of(&found(&[(0x10, 4096 * 99), (0x20, 4096)]));
        let new = EarlierSites::of(&found(&[(0x10, 4096 * 99), (0x20, 4096 * 6)]));
        let all = changes(&old, &new);
        let beyond = |most| all.iter().filter(|change| is_beyond(change, &old, most)).count();
        assert_eq!((beyond(0.049), beyond(0.05)), (1, 0), "5 pages of 100 are 5 %");
        assert!(!is_beyond(&changes(&new, &old)[1], &new, 0.0), "less is never beyond");
    }

    #[test]
    fn sites_of_one_name_in_two_libraries_are_two() {
        let site = |module: &str, live| (key("init", module), Holds { live, pinned: 0 });
        let old = EarlierSites { sites: vec![site("a.so", 10), site("b.so", 20)], ..EarlierSites::default() };
        let new = EarlierSites {
            sites: vec![site("b.so", 25), site("a.so", 10), site("c.so", 0)],
            ..EarlierSites::default()
        };
        assert_eq!(told(&changes(&old, &new)), [("init", 5), ("init", 0)]);
    }

    #[test]
    fn a_site_of_a_file_with_a_new_name_is_the_same_site() {
        let site = |module: &str, live| (key("init", module), Holds { live, pinned: 0 });
        let before = |sites: &[_]| EarlierSites { sites: sites.to_vec(), ..EarlierSites::default() };
        let (old, new) = (before(&[site("lib.so.1", 10)]), before(&[site("lib.so.2", 12)]));
        let all = changes(&old, &new);
        assert_eq!((told(&all), all[0].module.as_str()), (vec![("init", 2)], "lib.so.2"));
        let two = before(&[site("lib.so.2", 12), site("other.so", 7)]);
        assert_eq!(told(&changes(&old, &two)), [("init", 12), ("init", 7), ("init", -10)], "it could be either");
        let stayed = before(&[site("lib.so.1", 10), site("lib.so.2", 12)]);
        assert_eq!(told(&changes(&old, &stayed)), [("init", 12), ("init", 0)]);
    }
}
