//! Recognises slabs of GLib's slice allocator.
//!
//! Up to 2.74 GLib takes aligned blocks of up to two pages from `malloc`, and gives parts of them to the program. A slab has its state 48
//! bytes before its end: the free parts, the number of given parts, and its two neighbours in a ring. The neighbours must point back. A
//! part that the program leaks inside of a slab is not found.

use super::heap::TypedBlocks;
use super::table::Kinds;

/// The name of the kind.
pub const SLAB: &str = "GSlice slab (GLib)";
/// The file name of GLib begins so.
const LIBRARY: &str = "libglib-2.0.so";
/// The sizes of slabs. GLib leaves `LEFT` bytes of them for the header of `malloc`'s next block.
const PAGES: [u64; 6] = [256, 512, 1024, 2048, 4096, 8192];
const LEFT: u64 = 16;
/// The distance from the state to the end of the pages, and the offsets of its fields.
const STATE: u64 = 48;
const GIVEN: u64 = 8;
const NEXT: u64 = 16;
const BEFORE: u64 = 24;

/// Gives slabs their kind.
pub fn mark(heap: &TypedBlocks, kinds: &mut Kinds) {
    if heap.modules.named(&[LIBRARY]).next().is_none() {
        return;
    }
    let kind = kinds.named(SLAB, false);
    for (index, block) in heap.blocks.iter() {
        if !kinds.has(index) && is_slab(block.at, block.bytes, &|at| heap.word(at)) {
            kinds.set(index, kind);
        }
    }
}

fn is_slab(at: u64, bytes: u64, word: &dyn Fn(u64) -> Option<u64>) -> bool {
    PAGES.into_iter().any(|pages| {
        if !at.is_multiple_of(pages) || bytes < pages - LEFT || bytes >= pages + LEFT {
            return false;
        }
        let state = at + pages - STATE;
        let field = |of: u64, field: u64| word(of.wrapping_add(field));
        let given = field(state, GIVEN).unwrap_or(0) as u32;
        let is_ring = |[there, back]: [u64; 2]| {
            field(state, there).is_some_and(|other| other != 0 && field(other, back) == Some(state))
        };
        (1..=pages as u32 / 16).contains(&given) && is_ring([NEXT, BEFORE]) && is_ring([BEFORE, NEXT])
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_slab_is_in_a_ring_of_slabs() {
        let (first, second) = (0x10_0000_u64, 0x10_2000_u64);
        let states = [first, second].map(|at| at + 4096 - STATE);
        let mut words: BTreeMap<u64, u64> = BTreeMap::new();
        for (state, other) in [(states[0], states[1]), (states[1], states[0])] {
            words.extend([
                (state, 0),
                (state + GIVEN, 0xffff_ffff_0000_0007),
                (state + NEXT, other),
                (state + BEFORE, other),
            ]);
        }
        let is = |words: &BTreeMap<u64, u64>, at: u64, bytes: u64| is_slab(at, bytes, &|at| words.get(&at).copied());
        assert!(is(&words, first, 4088) && is(&words, second, 4080));
        assert!(!is(&words, first, 4064) && !is(&words, first + 16, 4088) && !is(&words, first, 8184));
        words.insert(states[1] + BEFORE, states[1]);
        assert!(!is(&words, first, 4088), "its neighbour has another one");
    }
}
