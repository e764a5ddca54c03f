//! Nodes that prove themselves by their neighbours. In: blocks without a kind. Out: kinds.
//!
//! A node of a red-black tree has colour, parent, left and right: its children's parent is itself, and its parent's child is itself. A node
//! of a list has next and previous, whose previous and next are itself. Lists of C programs look alike, so that these are likely only.

use super::{Heap, Kinds};

/// Gives nodes their kinds.
pub fn mark(heap: &Heap, kinds: &mut Kinds) {
    let tree = kinds.named("std::map or std::set node", false);
    let list = kinds.named("std::list node", true);
    for (index, block) in heap.blocks.iter() {
        if kinds.has(index) {
            continue;
        }
        if block.bytes >= 40 && is_tree_node(heap, index, block.at) {
            kinds.set(index, tree);
        } else if block.bytes >= 24 && is_list_node(heap, index, block.at) {
            kinds.set(index, list);
        }
    }
}

fn is_tree_node(heap: &Heap, index: u32, at: u64) -> bool {
    let words = heap.words(index);
    let [colour, parent, left, right] = [0, 1, 2, 3].map(|place| words.get(place).unwrap_or(u64::MAX));
    if colour as u32 > 1 || parent < 4096 || parent % 8 != 0 {
        return false;
    }
    let word = |at: u64| heap.word(at);
    let child = |child: u64| child == 0 || child.is_multiple_of(8) && word(child.wrapping_add(8)) == Some(at);
    let of_parent = [8, 16, 24].into_iter().any(|place| word(parent.wrapping_add(place)) == Some(at));
    of_parent && child(left) && child(right)
}

fn is_list_node(heap: &Heap, index: u32, at: u64) -> bool {
    let words = heap.words(index);
    let [next, before] = [0, 1].map(|place| words.get(place).unwrap_or(0));
    let apart = next != at && before != at && next % 8 == 0 && before % 8 == 0 && next >= 4096 && before >= 4096;
    apart && heap.word(next.wrapping_add(8)) == Some(at) && heap.word(before) == Some(at)
}
