//! The pages that threads own, by the threads' own counts. In: the pages that the map has. Out: both counts.
//!
//! An arena counts its pages, but not those whose memory is from the kernel. The heap of a thread counts all that it owns. What a thread
//! leaves when it ends is in no such count: a page of it whose memory is from the kernel is known by the map alone.

use std::collections::BTreeSet;
use std::ops::AddAssign;

use super::page::MiPage;
use super::release::{MimallocRelease, OwnerLists};
use crate::Memory;

/// More heaps than this are none.
const MOST: usize = 1 << 16;

/// Pages that threads own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owned {
    /// By their counts.
    pub wanted: u64,
    /// By the map.
    pub found: u64,
}

impl AddAssign for Owned {
    fn add_assign(&mut self, other: Owned) {
        self.wanted = self.wanted.saturating_add(other.wanted);
        self.found += other.found;
    }
}

/// Counts the pages that the map has, and adds up what the heaps of all threads count.
pub fn count(memory: &dyn Memory, pages: &[MiPage], release: &MimallocRelease) -> Owned {
    let owned = pages.iter().filter(|page| page.owned);
    let mut owners: BTreeSet<u64> = owned.clone().map(|page| page.owner).collect();
    if let Some(lists) = &release.owner.lists {
        listed(memory, pages, release, lists, &mut owners);
    }
    let counts = owners.iter().filter_map(|owner| memory.word(owner.checked_add(release.owner.page_count)?));
    Owned { wanted: counts.fold(0, u64::saturating_add), found: owned.count() as u64 }
}

/// Adds the heaps that the process lists.
fn listed(
    memory: &dyn Memory,
    pages: &[MiPage],
    release: &MimallocRelease,
    lists: &OwnerLists,
    owners: &mut BTreeSet<u64>,
) {
    let after = |at: u64, bytes: u64| memory.word(at.checked_add(bytes)?).filter(|at| *at != 0);
    let arenas: BTreeSet<u64> = pages.iter().filter_map(MiPage::arena).collect();
    let mut processes: BTreeSet<u64> = arenas.iter().filter_map(|arena| after(*arena, release.arena.subproc)).collect();
    processes
        .extend(owners.iter().filter_map(|owner| after(after(*owner, release.owner.tld)?, release.process.of_thread)));
    for process in processes {
        for heap in list(after(process, lists.heaps), |heap| after(heap, lists.next)) {
            owners.extend(list(after(heap, lists.theaps), |theap| after(theap, lists.theaps_next)));
        }
    }
}

/// The members of a list, until it ends or comes back to one of them.
fn list(first: Option<u64>, next: impl Fn(u64) -> Option<u64>) -> BTreeSet<u64> {
    let (mut all, mut at) = (BTreeSet::new(), first);
    while let Some(member) = at.filter(|at| all.len() < MOST && !all.contains(at)) {
        all.insert(member);
        at = next(member);
    }
    all
}
