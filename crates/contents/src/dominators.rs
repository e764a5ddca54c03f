//! Finds what single blocks retain: the blocks to which only they lead, directly or through others. It computes the dominator of each block
//! from the pointers of all blocks, and from the blocks to which variables point.
//!
//! This is needed because a variable of a Python module leads to all other modules, and so holds nothing alone. But a dict of a million
//! sessions is one block that retains them. The algorithm is semi-NCA (Georgiadis, 2005), without recursion. Stacks and registers do not
//! count, as for what holders have alone.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::kinds::TypedBlocks;
use crate::links::Links;
use crate::reach::each_pointer;

/// A block that retains others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retains {
    /// The block.
    pub block: u32,
    /// How many of the returned blocks before it retain it.
    pub depth: u32,
    /// The number of blocks that it retains, including itself.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
}

/// A block is returned only if it retains at least 1 / `PART` of all bytes, and at least a tenth less than the block above it.
const PART: u64 = 200;
/// The most levels and lines that are returned, and the most blocks of one kind below one block.
const DEEPEST: u32 = 4;
const LINES: usize = 40;
const ALIKE: usize = 3;
/// The most blocks that are considered.
const CANDIDATES: usize = 400;
/// The search ends after this many steps for each block: a hostile process can make it quadratic.
const STEPS: u64 = 64;

/// Blocks in the order of a depth-first walk, each with its dominator. The first item is not a block: it is the root above all variables.
pub struct Tree {
    /// The block of each place in the walk.
    order: Vec<u32>,
    /// For each place, the place of its dominator.
    above: Vec<u32>,
}

impl Tree {
    /// Computes the tree. `entries` says which blocks variables point to. `None` if this takes too many steps.
    pub fn of(heap: &TypedBlocks, links: &Links, entries: &[bool]) -> Option<Tree> {
        let count = heap.blocks.len();
        let pointers = |block: u32, visit: &mut dyn FnMut(u32)| {
            each_pointer(heap.copy, heap.blocks, links, block, |_, to| visit(to));
        };
        // The depth-first walk. The last item of the stack is from the deepest block that leads to it.
        let (mut order, mut parents, mut places) = (vec![u32::MAX], vec![0_u32], vec![0_u32; count]);
        let mut stack: Vec<(u32, u32)> = Vec::new();
        for entry in (0..count as u32).filter(|block| entries[*block as usize]) {
            stack.push((entry, 0));
            while let Some((block, parent)) = stack.pop() {
                if places[block as usize] != 0 {
                    continue;
                }
                let place = order.len() as u32;
                places[block as usize] = place;
                order.push(block);
                parents.push(parent);
                pointers(block, &mut |to| {
                    if places[to as usize] == 0 {
                        stack.push((to, place));
                    }
                });
            }
        }
        drop(stack);
        // For each place, the places that lead to it, all in one list. `firsts` says where its part of the list begins. Each part is filled
        // from its end.
        let mut firsts = vec![0_u32; order.len() + 1];
        order[1..].iter().for_each(|block| pointers(*block, &mut |to| firsts[places[to as usize] as usize] += 1));
        for at in 1..firsts.len() {
            firsts[at] = firsts[at].checked_add(firsts[at - 1])?;
        }
        let mut before = vec![0_u32; firsts[order.len()] as usize];
        for (place, block) in order.iter().enumerate().skip(1) {
            pointers(*block, &mut |to| {
                let first = &mut firsts[places[to as usize] as usize];
                *first -= 1;
                before[*first as usize] = place as u32;
            });
        }
        drop(places);
        let is_entry = |place: usize| entries[order[place] as usize];
        let above = dominators(parents, |place| {
            (is_entry(place), &before[firsts[place] as usize..firsts[place + 1] as usize])
        })?;
        Some(Tree { order, above })
    }

    /// For each place, the number of blocks that it retains, including itself, and their bytes.
    fn all_sums(&self, heap: &TypedBlocks) -> Vec<(u64, u64)> {
        let mut sums = vec![(0_u64, 0_u64); self.order.len()];
        for place in (1..self.order.len()).rev() {
            sums[place].0 += 1;
            sums[place].1 += heap.blocks.get(self.order[place]).bytes;
            let (blocks, bytes) = sums[place];
            let above = &mut sums[self.above[place] as usize];
            *above = (above.0 + blocks, above.1 + bytes);
        }
        sums
    }

    /// For each wanted block, the number of blocks that it retains, including itself, and their bytes. Blocks to which only stacks and
    /// registers lead are missing.
    pub fn sums(&self, heap: &TypedBlocks, wanted: &HashSet<u32>) -> HashMap<u32, (u64, u64)> {
        let sums = self.all_sums(heap);
        let places = (1..self.order.len()).filter(|place| wanted.contains(&self.order[*place]));
        places.map(|place| (self.order[place], sums[place])).collect()
    }

    /// The first few blocks of each group by the bytes that they retain, and these blocks and bytes. Blocks to which only stacks and registers
    /// lead are missing.
    pub fn most_of(
        &self,
        heap: &TypedBlocks,
        groups: usize,
        each: usize,
        group: &dyn Fn(u32) -> Option<usize>,
    ) -> Vec<Vec<(u32, (u64, u64))>> {
        let sums = self.all_sums(heap);
        let mut all = vec![Vec::new(); groups];
        let cut = |most: &mut Vec<(u32, (u64, u64))>| {
            most.sort_by_key(|(block, (_, bytes))| (Reverse(*bytes), *block));
            most.truncate(each);
        };
        for (block, sum) in self.order.iter().zip(&sums).skip(1) {
            if let Some(group) = group(*block) {
                all[group].push((*block, *sum));
                if all[group].len() > 100 * each {
                    cut(&mut all[group]);
                }
            }
        }
        all.iter_mut().for_each(cut);
        all
    }

    /// The blocks that retain most bytes. Each comes after the block that retains it. A block is left out if one above it has the same
    /// kind.
    pub fn largest(&self, heap: &TypedBlocks, kind: &dyn Fn(u32) -> u32) -> Vec<Retains> {
        let sums = self.all_sums(heap);
        let whole = sums[0].1;
        let above = |place: usize| self.above[place] as usize;
        // If each block of a chain retains little more than the next one, one block of the chain is enough.
        let tells = |place: &usize| {
            let (blocks, bytes) = sums[*place];
            let upper = above(*place);
            blocks > 1 && bytes.saturating_mul(PART) >= whole && (upper == 0 || bytes / 9 <= sums[upper].1 / 10)
        };
        let mut candidates: Vec<usize> = (1..self.order.len()).filter(tells).collect();
        candidates.sort_by_key(|place| (Reverse(sums[*place].1), *place));
        candidates.truncate(CANDIDATES);
        // A block retains more bytes than any block below it, so it comes first.
        let mut told: HashMap<usize, (usize, u32)> = HashMap::from([(0, (0, u32::MAX))]);
        let mut below: HashMap<usize, Vec<usize>> = HashMap::new();
        for place in candidates {
            let of = kind(self.order[place]);
            let mut upper = above(place);
            while !told.contains_key(&upper) {
                upper = above(upper);
            }
            // Further blocks of the same kind, such as the halves of a tree, add no information.
            let (mut next, mut is_same) = (upper, false);
            while next != 0 {
                is_same |= told[&next].1 == of;
                next = told[&next].0;
            }
            let beside = below.entry(upper).or_default();
            let alike = beside.iter().filter(|other| told[*other].1 == of).count();
            if !is_same && alike < ALIKE && told.len() <= LINES {
                beside.push(place);
                told.insert(place, (upper, of));
            }
        }
        let mut stack: Vec<(usize, u32)> = below.get(&0).into_iter().flatten().rev().map(|place| (*place, 0)).collect();
        let mut out = Vec::new();
        while let Some((place, depth)) = stack.pop() {
            let (blocks, bytes) = sums[place];
            out.push(Retains { block: self.order[place], depth, blocks, bytes });
            if depth + 1 < DEEPEST {
                stack.extend(below.get(&place).into_iter().flatten().rev().map(|place| (*place, depth + 1)));
            }
        }
        out
    }
}

/// The dominator of each place of a depth-first walk. `before` says whether the root leads to a place, and which other places do. `None` if
/// this takes too many steps.
fn dominators<'a>(parents: Vec<u32>, before: impl Fn(usize) -> (bool, &'a [u32])) -> Option<Vec<u32>> {
    let count = parents.len();
    let mut semi: Vec<u32> = (0..count as u32).collect();
    let mut labels = semi.clone();
    let mut ancestors = parents.clone();
    let mut path: Vec<u32> = Vec::new();
    for place in (1..count).rev() {
        let (is_entry, before) = before(place);
        let mut least = if is_entry { 0 } else { parents[place] };
        for &from in before {
            let label = best(from, place as u32 + 1, &mut ancestors, &mut labels, &semi, &mut path);
            least = least.min(semi[label as usize]);
        }
        semi[place] = least;
    }
    // Frees these lists early: with ten million blocks, each has 40 MB.
    drop((labels, ancestors));
    let mut above = parents;
    let mut steps = STEPS * count as u64;
    for place in 1..count {
        let mut upper = above[place];
        while upper > semi[place] {
            upper = above[upper as usize];
            steps = steps.checked_sub(1)?;
        }
        above[place] = upper;
    }
    Some(above)
}

/// The place with the least semidominator on the path up from `from`, as far as the places were already processed. Also shortens the path.
fn best(from: u32, looked: u32, ancestors: &mut [u32], labels: &mut [u32], semi: &[u32], path: &mut Vec<u32>) -> u32 {
    let mut at = from as usize;
    while ancestors[at] >= looked {
        path.push(at as u32);
        at = ancestors[at] as usize;
    }
    while let Some(below) = path.pop() {
        let below = below as usize;
        ancestors[below] = ancestors[at];
        if semi[labels[at] as usize] < semi[labels[below] as usize] {
            labels[below] = labels[at];
        }
        at = below;
    }
    labels[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{FakeHeap, blocks, globals};
    use crate::modules::ModuleList;
    use proptest::prelude::*;

    const HEAP: u64 = 0x1_0000_0000;

    /// Blocks of 64 bytes with pointers, and entries.
    fn tree(count: u64, pointers: &[(u64, u64)], entries: &[u64], check: impl FnOnce(&TypedBlocks, &[bool])) {
        let mut made = FakeHeap::of(&[(0x10_0000, 4096), (HEAP, (count * 64).next_multiple_of(4096))]);
        let mut used = vec![0; count as usize];
        for &(from, to) in pointers {
            if used[from as usize] < 8 {
                made.put(HEAP + 64 * from + 8 * used[from as usize], &[HEAP + 64 * to]);
                used[from as usize] += 1;
            }
        }
        let (blocks, copy, roots) =
            (blocks((0..count).map(|at| (HEAP + 64 * at, 64))), made.copy(), globals(0x10_0000));
        let (modules, open) = (ModuleList::default(), |_: &_| None);
        let heap = TypedBlocks {
            copy: &copy,
            blocks: &blocks,
            sample: None,
            modules: &modules,
            roots: &roots,
            languages: crate::languages::Languages::default(),
            open: &open,
        };
        let entries: Vec<bool> = (0..count).map(|at| entries.contains(&at)).collect();
        check(&heap, &entries);
    }

    #[test]
    fn what_two_ways_lead_to_is_retained_by_where_they_part() {
        // 0 -> 1, 2 -> 3 -> 4; a variable points to 0 and 5, and 5 -> 6, 4.
        let pointers = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (5, 6), (5, 4)];
        tree(7, &pointers, &[0, 5], |heap, entries| {
            let found: Vec<(u32, u32, u64)> = Tree::of(heap, &Links::default(), entries)
                .unwrap()
                .largest(heap, &|block| block)
                .iter()
                .map(|one| (one.block, one.depth, one.blocks))
                .collect();
            assert_eq!(found, [(0, 0, 4), (5, 0, 2)]);
        });
    }

    #[test]
    fn a_list_of_100_000_blocks_ends() {
        let pointers: Vec<(u64, u64)> = (1..100_000).flat_map(|at| [(at - 1, at), (at, at - 1)]).collect();
        tree(100_000, &pointers, &[0], |heap, entries| {
            let tree = Tree::of(heap, &Links::default(), entries).unwrap();
            assert_eq!(tree.sums(heap, &HashSet::from([99_998])), HashMap::from([(99_998, (2, 128))]));
            let found = tree.largest(heap, &|_| 7);
            assert_eq!(found, [Retains { block: 0, depth: 0, blocks: 100_000, bytes: 6_400_000 }]);
        });
    }

    proptest! {
        /// A block dominates another one if without it nothing leads there.
        #[test]
        fn dominators_are_those_of_the_definition(
            pointers in prop::collection::vec((0..12_u64, 0..12_u64), 0..40),
            entries in prop::collection::vec(0..12_u64, 1..4),
        ) {
            tree(12, &pointers, &entries, |heap, entries| {
                let reached = |without: u32| {
                    let mut seen = [false; 12];
                    let mut stack: Vec<u32> = (0..12).filter(|at| entries[*at as usize] && *at != without).collect();
                    while let Some(at) = stack.pop() {
                        if !std::mem::replace(&mut seen[at as usize], true) {
                            each_pointer(heap.copy, heap.blocks, &Links::default(), at, |_, to| stack.extend((to != without).then_some(to)));
                        }
                    }
                    seen
                };
                let all = reached(u32::MAX);
                let tree = Tree::of(heap, &Links::default(), entries).unwrap();
                let mut found = vec![Vec::new(); 12];
                for place in 1..tree.order.len() {
                    let mut upper = tree.above[place] as usize;
                    while upper != 0 {
                        found[tree.order[place] as usize].push(tree.order[upper]);
                        upper = tree.above[upper] as usize;
                    }
                }
                for block in 0..12_u32 {
                    let wanted: Vec<u32> =
                        (0..12).filter(|other| *other != block && all[block as usize] && all[*other as usize] && !reached(*other)[block as usize]).collect();
                    found[block as usize].sort_unstable();
                    assert_eq!(found[block as usize], wanted, "of {block}");
                }
            });
        }
    }
}
