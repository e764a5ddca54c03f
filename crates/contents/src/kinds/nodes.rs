//! Recognises nodes of trees and lists by their neighbours.
//!
//! A node of a red-black tree has colour, parent, left and right (libstdc++), or left, right, parent and colour (libc++). Its children must
//! have it as parent, and its parent must have it as child. A node of a list has next and previous. Its next node must have it as previous,
//! and its previous node as next. Lists of C programs look the same, so lists are only likely.

use super::heap::TypedBlocks;
use super::table::Kinds;

/// Gives nodes of trees their kinds. Call it before containers are searched, because parents and children prove more than three words of a
/// container: in a node of libc++, the parent, the colour and a small key can look like a `std::string`.
pub fn mark_trees(heap: &TypedBlocks, kinds: &mut Kinds) {
    let tree = kinds.named("std::map or std::set node", false);
    mark(heap, kinds, tree, |index, at, bytes| bytes >= 40 && is_tree_node(heap, index, at));
}

/// Gives nodes of lists their kinds.
pub fn mark_lists(heap: &TypedBlocks, kinds: &mut Kinds) {
    let list = kinds.named("std::list node", true);
    mark(heap, kinds, list, |index, at, bytes| bytes >= 24 && is_list_node(heap, index, at));
}

/// Gives a kind to all blocks without one for which `is` is true. `is` gets the index, the address and the bytes.
fn mark(heap: &TypedBlocks, kinds: &mut Kinds, kind: u32, is: impl Fn(u32, u64, u64) -> bool) {
    for (index, block) in heap.blocks.iter() {
        if !kinds.has(index) && is(index, block.at, block.bytes) {
            kinds.set(index, kind);
        }
    }
}

fn is_tree_node(heap: &TypedBlocks, index: u32, at: u64) -> bool {
    let words = heap.words(index);
    // For each library: the words with colour, parent, left and right, and the offsets in the parent, or in the head of the tree, where the
    // node can be.
    [([0, 1, 2, 3], [8, 16, 24].as_slice()), ([3, 2, 0, 1], &[0, 8])].into_iter().any(|(places, of_parent)| {
        let [colour, parent, left, right] = places.map(|place| words.get(place).unwrap_or(u64::MAX));
        // In libc++ the colour is one byte, and the other bytes of the word have no meaning.
        let colours = if places[0] == 0 { colour as u32 } else { u32::from(colour as u8) };
        if colours > 1 || parent < 4096 || parent % 8 != 0 {
            return false;
        }
        let word = |at: u64| heap.word(at);
        let up = 8 * places[1] as u64;
        let child = |child: u64| child == 0 || child.is_multiple_of(8) && word(child.wrapping_add(up)) == Some(at);
        of_parent.iter().any(|place| word(parent.wrapping_add(*place)) == Some(at)) && child(left) && child(right)
    })
}

fn is_list_node(heap: &TypedBlocks, index: u32, at: u64) -> bool {
    let words = heap.words(index);
    let [next, before] = [0, 1].map(|place| words.get(place).unwrap_or(0));
    let apart = next != at && before != at && next % 8 == 0 && before % 8 == 0 && next >= 4096 && before >= 4096;
    apart && heap.word(next.wrapping_add(8)) == Some(at) && heap.word(before) == Some(at)
}
