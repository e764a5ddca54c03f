//! Finds which memory belongs to which C library, if a process has several: `dlmopen` and LD_AUDIT load one into its own name space, with
//! its own heap. Pieces of memory do not name their arena. But the free blocks in an arena's bins show which pieces it has.

use super::arenas::BINS;
use super::marks::Marks;
use super::memories::Memories;
use super::share::Share;
use super::structures::Structures;
use crate::{Memory, Window};

/// The most free blocks that are followed in one bin.
const MOST: usize = 1 << 20;

/// Finds the memory of each C library. `None` if its structures are not known.
pub(super) fn divide(memory: &dyn Memory, all: &[Option<&Structures>]) -> Vec<Option<Memories>> {
    let heaps = |found: &Structures| Memories::of_heaps(memory, found);
    let mut memories: Vec<Option<Memories>> = all.iter().map(|one| one.map(heaps)).collect();
    let marks: Vec<Marks> = match all {
        [_] => vec![Marks::default()],
        _ => all.iter().map(|one| one.map_or_else(Marks::default, |found| binned(memory, found))).collect(),
    };
    for (index, found) in all.iter().enumerate() {
        let mut taken: Vec<(u64, u64)> = memories.iter().flatten().flat_map(Memories::ranges).collect();
        taken.sort_unstable();
        let others = || (0..all.len()).filter(|other| *other != index);
        let share = Share {
            taken,
            own: (all.len() > 1).then_some(&marks[index]),
            others: others().map(|other| &marks[other]).collect(),
            ends: others().filter_map(|other| Some(all[other]?.arenas[0].top)).collect(),
        };
        if let (Some(found), Some(own)) = (found, &mut memories[index]) {
            own.add_between(memory, found, &share);
        }
    }
    memories
}

/// The free blocks in the bins of a main arena, and its end.
fn binned(memory: &dyn Memory, found: &Structures) -> Marks {
    let main = &found.arenas[0];
    let mut marks = Marks::default();
    if main.contiguous || !main.has_memory(found.release) {
        return marks;
    }
    marks.add(main.top);
    let mut window = Window::of_pages(memory);
    for bin in 0..BINS {
        let own = main.at + found.release.bins + 16 * bin - 16;
        let mut at = own;
        for _ in 0..MOST {
            let Some(next) = at.checked_add(16).and_then(|link| window.word(link)) else { break };
            if next == own || next % 16 != 0 || !marks.add(next) {
                break;
            }
            at = next;
        }
    }
    marks
}
