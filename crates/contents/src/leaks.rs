//! Finds the leaked blocks: those that nothing reaches. Says for each whether another leaked block leads to it.
//!
//! While a process runs, a pointer can move from memory that is not yet copied to memory that was copied before. So two readings have to
//! agree: a block counts as leaked if nothing reaches it in either, and its address, size and content are the same in both. Any other block
//! may be held, and so may all blocks to which it leads.

use allocanary_heap::MemoryCopy;

use crate::blocks::Blocks;
use crate::links::Links;
use crate::reach::{Reach, each_pointer};

/// A block that nothing reaches in a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeakSuspect {
    at: u64,
    bytes: u64,
    hash: u64,
}

/// The blocks that nothing reaches, in the order of their addresses.
pub fn candidates(copy: &MemoryCopy, blocks: &Blocks, reach: &Reach) -> Vec<LeakSuspect> {
    let unreached = blocks.iter().filter(|(index, _)| !reach.has(*index));
    unreached.map(|(index, _)| candidate(copy, blocks, index)).collect()
}

fn candidate(copy: &MemoryCopy, blocks: &Blocks, index: u32) -> LeakSuspect {
    let block = blocks.get(index);
    let mut hash = 0_u64;
    copy.each_word(block.at..block.at + block.bytes, |_, word| {
        hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    });
    LeakSuspect { at: block.at, bytes: block.bytes, hash }
}

/// Adds to `reach` the blocks that an earlier reading had reached, or that have changed since, and all blocks to which they lead.
pub fn agree(copy: &MemoryCopy, blocks: &Blocks, reach: &mut Reach, earlier: &[LeakSuspect], links: &Links) {
    for (index, _) in blocks.iter() {
        if !reach.has(index) && earlier.binary_search(&candidate(copy, blocks, index)).is_err() {
            reach.add(copy, blocks, index, links);
        }
    }
}

/// A leaked block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The index of the block.
    pub block: u32,
    /// Whether no other leaked block leads to it. If blocks lead to each other in a circle, the first one counts as direct.
    pub direct: bool,
}

/// All leaked blocks, in the order of their addresses.
pub fn of(copy: &MemoryCopy, blocks: &Blocks, reach: &Reach, links: &Links) -> Vec<Leak> {
    let mut leaks: Vec<Leak> =
        blocks.iter().filter(|(index, _)| !reach.has(*index)).map(|(block, _)| Leak { block, direct: true }).collect();
    let place = |leaks: &[Leak], block: u32| leaks.binary_search_by_key(&block, |leak| leak.block).ok();
    let mut pointed = vec![false; leaks.len()];
    for leak in &leaks {
        each_pointer(copy, blocks, links, leak.block, |_, to| {
            if let Some(to) = place(&leaks, to) {
                pointed[to] = true;
            }
        });
    }
    // First come the blocks to which no leaked block leads. The rest are circles, and blocks to which circles lead. If one such group leads
    // to another, it comes later in `order`, so this list is used backwards.
    let order = finished(leaks.len(), |at, visit| {
        each_pointer(copy, blocks, links, leaks[at].block, |_, to| place(&leaks, to).into_iter().for_each(&mut *visit));
    });
    let mut done = vec![false; leaks.len()];
    let mut queue = Vec::new();
    let direct = (0..leaks.len()).filter(|at| !pointed[*at]);
    for first in direct.chain(order.into_iter().rev()) {
        if std::mem::replace(&mut done[first], true) {
            continue;
        }
        queue.push(first);
        while let Some(at) = queue.pop() {
            let mut found = Vec::new();
            each_pointer(copy, blocks, links, leaks[at].block, |_, to| found.extend(place(&leaks, to)));
            for to in found.into_iter().filter(|to| !std::mem::replace(&mut done[*to], true)) {
                leaks[to].direct = false;
                queue.push(to);
            }
        }
    }
    leaks
}

/// The order in which a depth-first walk finishes the items, when it starts at each item, the lowest first.
fn finished(count: usize, pointers: impl Fn(usize, &mut dyn FnMut(usize))) -> Vec<usize> {
    let (mut seen, mut order, mut stack) = (vec![false; count], Vec::new(), Vec::new());
    for first in 0..count {
        stack.push((first, false));
        while let Some((at, is_done)) = stack.pop() {
            if is_done {
                order.push(at);
            } else if !std::mem::replace(&mut seen[at], true) {
                stack.push((at, true));
                pointers(at, &mut |to| stack.extend((!seen[to]).then_some((to, false))));
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{FakeHeap, blocks, globals};

    const GLOBALS: u64 = 0x10_0000;
    const HEAP: u64 = 0x1_0000_0000;

    /// Blocks of 32 bytes, of which `pointers` lead from one to another; the first is held by a global variable.
    fn made(count: u64, pointers: &[(u64, u64)]) -> (FakeHeap, Blocks) {
        let mut made = FakeHeap::of(&[(GLOBALS, 4096), (HEAP, (count * 32).next_multiple_of(4096))]);
        made.put(GLOBALS + 8, &[HEAP]);
        for &(from, to) in pointers {
            made.put(HEAP + 32 * from + 8, &[HEAP + 32 * to]);
        }
        (made, blocks((0..count).map(|at| (HEAP + 32 * at, 32))))
    }

    fn lost(made: &FakeHeap, blocks: &Blocks) -> Vec<(u32, bool)> {
        let (copy, links) = (made.copy(), Links::default());
        let reach = Reach::of(&copy, blocks, &globals(GLOBALS), &links);
        of(&copy, blocks, &reach, &links).iter().map(|leak| (leak.block, leak.direct)).collect()
    }

    #[test]
    fn what_a_lost_block_leads_to_is_lost_by_it() {
        // 0 -> 1 are held; 2 -> 3 -> 4 are a list, 5 <-> 6 a circle that leads to 7, 9 -> 8 a list whose end has the lower address.
        let (made, blocks) = made(10, &[(0, 1), (2, 3), (3, 4), (5, 6), (6, 5), (9, 8)]);
        let mut made = made;
        made.put(HEAP + 32 * 6 + 16, &[HEAP + 32 * 7 + 5]);
        let wanted = [(2, true), (3, false), (4, false), (5, true), (6, false), (7, false), (8, false), (9, true)];
        assert_eq!(lost(&made, &blocks), wanted);
    }

    #[test]
    fn what_a_circle_leads_to_is_lost_by_it_at_any_address() {
        // A circle 4 <-> 5 leads to 1, and to another circle 2 <-> 3.
        let (made, blocks) = made(6, &[(2, 3), (3, 2), (4, 5)]);
        let mut made = made;
        made.put(HEAP + 32 * 5 + 8, &[HEAP + 32, HEAP + 32 * 2, HEAP + 32 * 4]);
        assert_eq!(lost(&made, &blocks), [(1, false), (2, false), (3, false), (4, true), (5, false)]);
    }

    #[test]
    fn compiled_code_holds_what_stands_in_it_at_odd_places() {
        let (mut made, blocks) = made(4, &[]);
        made.write(GLOBALS + 101, &(HEAP + 64).to_le_bytes());
        assert_eq!(lost(&made, &blocks), [(1, true), (2, true), (3, true)]);
        made.make_executable(GLOBALS);
        assert_eq!(lost(&made, &blocks), [(1, true), (3, true)]);
    }

    #[test]
    fn a_circle_of_a_million_blocks_ends() {
        const COUNT: u64 = 1_000_000;
        let pointers: Vec<(u64, u64)> = (1..COUNT).map(|at| (at, if at + 1 == COUNT { 1 } else { at + 1 })).collect();
        let (made, blocks) = made(COUNT, &pointers);
        let lost = lost(&made, &blocks);
        assert_eq!((lost.len() as u64, lost.iter().filter(|(_, direct)| *direct).count()), (COUNT - 1, 1));
    }

    #[test]
    fn only_what_two_readings_agree_on_is_lost() {
        let links = Links::default();
        let (first, blocks) = made(6, &[(2, 3)]);
        let copy = first.copy();
        let reach = Reach::of(&copy, &blocks, &globals(GLOBALS), &links);
        let earlier = candidates(&copy, &blocks, &reach);
        assert_eq!(earlier.len(), 5);
        // Block 2 has changed, and leads to 3 as before. Block 4 is held now.
        let (mut second, _) = made(6, &[(2, 3), (0, 4)]);
        second.put(HEAP + 64, &[1]);
        let copy = second.copy();
        let mut reach = Reach::of(&copy, &blocks, &globals(GLOBALS), &links);
        agree(&copy, &blocks, &mut reach, &earlier, &links);
        let lost: Vec<u32> = of(&copy, &blocks, &reach, &links).iter().map(|leak| leak.block).collect();
        assert_eq!(lost, [1, 5]);
    }
}
