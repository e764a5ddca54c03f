//! Compares the number of pages that threads own: by the threads' own counts, and by the map.
//!
//! An arena counts its pages, but not pages with memory from the kernel. The heap of a thread counts all pages that it owns. A page that an
//! ended thread has left is in no such count: if its memory is from the kernel, only the map has it.

use std::collections::BTreeSet;
use std::ops::AddAssign;

use super::page::MiPage;
use super::release::{MimallocRelease, OwnerLists};
use crate::Memory;

/// The most heaps that are read from a list.
const MOST: usize = 1 << 16;

/// The number of pages that threads own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owned {
    /// The number according to the threads' counts.
    pub wanted: u64,
    /// The number of owned pages in the map.
    pub found: u64,
}

impl AddAssign for Owned {
    fn add_assign(&mut self, other: Owned) {
        self.wanted = self.wanted.saturating_add(other.wanted);
        self.found += other.found;
    }
}

/// Counts the owned pages of the map, and adds up the counts of all threads' heaps.
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

/// The members of a list, up to its end or to the first member that is repeated.
fn list(first: Option<u64>, next: impl Fn(u64) -> Option<u64>) -> BTreeSet<u64> {
    let (mut all, mut at) = (BTreeSet::new(), first);
    while let Some(member) = at.filter(|at| all.len() < MOST && !all.contains(at)) {
        all.insert(member);
        at = next(member);
    }
    all
}
