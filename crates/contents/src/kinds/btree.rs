//! Recognises nodes of Rust's BTreeMap and BTreeSet.
//!
//! A node has its parent, its index in the parent, its length, keys and values, in an order that the compiler chooses for each map. An
//! inner node has its children at its end: one pointer more than its length. So the places of these fields are searched. They are right if
//! all children agree: each has the address of its parent at one distance, its index 0, 1, 2 … at another, and a length of 1 to 11 right
//! behind. A map of up to 11 entries is a single node, which nothing proves. (Rust 1.36 and later.)

use super::heap::{TypedBlocks, WordSlice};
use super::table::Kinds;

/// The most entries of a node.
const MOST: u16 = 11;
/// The largest inner node that is examined, in words.
const LARGEST: usize = 1 << 10;

/// Gives nodes their kind.
pub fn mark(heap: &TypedBlocks, kinds: &mut Kinds) {
    let kind = kinds.named("BTreeMap node (Rust)", false);
    // How many words of children may still be searched for their parent. A hostile program could make the search quadratic.
    let mut left = 64 * heap.blocks.len() as u64 + (1 << 16);
    // The places of the parent and the index in the last node: mostly the next node has the same.
    let mut last = (0, 0);
    for (index, block) in heap.blocks.iter() {
        let words = heap.words(index);
        // A node that was already recognised as a child can be an inner node with its own children.
        let is_other = kinds.has(index) && kinds.number(index) != kind && heap.sample.is_none();
        if is_other || !(16..LARGEST).contains(&words.len()) {
            continue;
        }
        for edge in 1..words.len() - 1 {
            // An inner node has at least two children.
            let Some([first, second]) = children(heap, words, edge) else { continue };
            let Some(parent) = parent(heap.words(first), block.at, last.0, &mut left) else { continue };
            if heap.words(second).get(parent) != Some(block.at) {
                continue;
            }
            if let Some((place, nodes)) = nodes(heap, words, block.at, edge, parent, last.1) {
                last = (parent, place);
                kinds.set(index, kind);
                nodes.into_iter().for_each(|node| kinds.set(node, kind));
                break;
            }
        }
        if left == 0 {
            return;
        }
    }
}

/// The blocks that two words in a row point to.
fn children(heap: &TypedBlocks, words: WordSlice, edge: usize) -> Option<[u32; 2]> {
    let [first, second] = [words.get(edge)?, words.get(edge + 1)?];
    if first < 1 << 16 || second < 1 << 16 || first == second {
        return None;
    }
    Some([heap.blocks.at(first)?, heap.blocks.at(second)?])
}

/// The index of the word in a child that has its parent's address.
fn parent(child: WordSlice, at: u64, guess: usize, left: &mut u64) -> Option<usize> {
    if child.get(guess) == Some(at) {
        return Some(guess);
    }
    let count = child.len().min(LARGEST);
    *left = left.saturating_sub(count as u64);
    (0..count).find(|place| child.get(*place) == Some(at))
}

/// The children of a node, and the place of the index in them.
fn nodes(
    heap: &TypedBlocks,
    words: WordSlice,
    at: u64,
    edge: usize,
    parent: usize,
    guess: usize,
) -> Option<(usize, Vec<u32>)> {
    let half = |words: WordSlice, place: usize| {
        Some(u16::from_le_bytes(words.0.get(2 * place..2 * place + 2)?.try_into().ok()?))
    };
    let of_place = |place: usize| {
        let length = half(words, place + 1).filter(|length| (1..=MOST).contains(length))?;
        let child = |number: u16| {
            let child = heap.blocks.at(words.get(edge + usize::from(number))?)?;
            let own = heap.words(child);
            let fits = own.get(parent) == Some(at)
                && half(own, place) == Some(number)
                && half(own, place + 1).is_some_and(|length| (1..=MOST).contains(&length));
            fits.then_some(child)
        };
        let all: Option<Vec<u32>> = (0..=length).map(child).collect();
        all.map(|all| (place, all))
    };
    // Index and length are halves of one word, behind or before all other fields.
    of_place(guess).or_else(|| (0..4 * words.len().min(LARGEST) - 1).find_map(of_place))
}
