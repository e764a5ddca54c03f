//! Recognises blocks that a container holds, by the container's own words. They can be in any block or root.
//!
//! | container | words | proof |
//! |---|---|---|
//! | `std::string` | data, length, capacity; of libc++ capacity, length, data | the capacity fills the block, a zero is behind the text |
//! | `std::vector` | begin, end, end of the capacity | the same |
//! | `std::deque` | map, its size, two iterators of four words | both iterators' chunks have 512 bytes and are in the map |
//! | `std::unordered_*` | buckets, their count, first node, nodes, 1.0f | the chain has as many nodes, and ends |
//! | `String` of Rust | capacity, data, length | the capacity fills the block, the data are text |
//! | hashbrown's table | control bytes, mask, room, items | as many control bytes are full, and the first 16 are mirrored |
//!
//! The containers of a language are searched only if the process has the language. Some words fit both a `std::string` and a `String`. Such
//! a block gets the kind that most other strings have.
//!
//! (libstdc++ of GCC 5 and later, libc++; Rust 1.36 and later.)

use super::content::is_text;
use super::heap::{TypedBlocks, WordSlice};
use super::table::Kinds;
use crate::languages::Languages;

/// Gives blocks that containers hold their kinds.
pub fn mark(heap: &TypedBlocks, kinds: &mut Kinds) {
    if heap.languages == Languages::default() {
        return;
    }
    let mut owners = Owners { heap, kinds, visited: 0, strings: [0; 2] };
    for root in heap.roots {
        heap.each_piece(root.from, root.to, |bytes| owners.words(WordSlice(bytes)));
    }
    heap.each_block(|_, _, bytes| owners.words(WordSlice(bytes)));
    let most = STRINGS[usize::from(owners.strings[1] > owners.strings[0])];
    kinds.replace(EITHER, most);
}

struct Owners<'a, 'b> {
    heap: &'a TypedBlocks<'a>,
    kinds: &'b mut Kinds,
    /// The number of nodes that were followed in chains.
    visited: u64,
    /// The number of strings of each of the two kinds that are certain.
    strings: [u64; 2],
}

/// The kinds of the two strings.
pub(super) const STRINGS: [&str; 2] = ["std::string data", "String data (Rust)"];
/// The kind of blocks that can be either, until all strings are counted.
const EITHER: &str = "string data";

/// `1.0f`, the default load factor of a hash table.
const ONE: u64 = 0x3f80_0000;

impl Owners<'_, '_> {
    fn words(&mut self, words: WordSlice) {
        for at in 0..words.len() {
            let Some(word) = words.get(at) else { return };
            let Languages { cpp, rust } = self.heap.languages;
            if cpp && word & 0xffff_ffff == ONE && at >= 4 {
                self.unordered(words, at - 4);
            }
            // Most words are small numbers.
            if word < 1 << 16 {
                continue;
            }
            let Some(block) = self.heap.blocks.find(word) else { continue };
            let whole = self.heap.blocks.get(block);
            let next = [1, 2, 3].map(|next| words.get(at + next).unwrap_or(0));
            if whole.at != word {
                if rust {
                    self.hashbrown(word, next, block);
                }
                continue;
            }
            if self.kinds.has(block) {
                // The sample may contain the chunks and not the map.
                if cpp && self.heap.sample.is_some() {
                    self.deque(words, at, block);
                }
                continue;
            }
            let before = |count: usize| at.checked_sub(count).and_then(|at| words.get(at)).unwrap_or(0);
            // libc++ sets the lowest bit of a capacity.
            let of_libcxx = [before(1), before(2).wrapping_sub(2), 0];
            let of_cpp = cpp
                && (self.is_string(word, whole.bytes, next)
                    || before(2) & 1 == 1 && self.is_string(word, whole.bytes, of_libcxx));
            match [of_cpp, rust && self.is_rust_string(word, whole.bytes, before(1), next[0])] {
                [true, true] => self.set(block, EITHER),
                [false, false] if cpp && is_vector(word, whole.bytes, next) => self.set(block, "std::vector data"),
                [false, false] if cpp => self.deque(words, at, block),
                [false, false] => {}
                [_, of_rust] => {
                    self.strings[usize::from(of_rust)] += 1;
                    self.set(block, STRINGS[usize::from(of_rust)]);
                }
            }
        }
    }

    /// Whether more nodes were followed than an honest process has.
    fn is_tired(&self) -> bool {
        self.visited >= 4 * self.heap.blocks.len() as u64
    }

    fn set(&mut self, block: u32, name: &str) {
        let kind = self.kinds.named(name, false);
        self.kinds.set(block, kind);
    }

    fn is_string(&self, data: u64, bytes: u64, [length, capacity, _]: [u64; 3]) -> bool {
        // A string of up to 15 bytes is in the object itself, not in a block.
        let fits = capacity > 15 && capacity < bytes && length <= capacity && fills(capacity + 1, bytes);
        fits && self.heap.copy.bytes(data + length, 1).is_some_and(|byte| byte[0] == 0) && !self.is_array(data, length)
    }

    /// Whether the text of this string would consist of pointers: an array with its count and its bytes can look like a string.
    fn is_array(&self, data: u64, length: u64) -> bool {
        const LOOKED: u64 = 64;
        let words = WordSlice(self.heap.copy.bytes(data, length.min(LOOKED)).unwrap_or_default());
        let filled = || (0..words.len()).filter_map(|at| words.get(at)).filter(|word| *word != 0);
        filled().next().is_some() && filled().all(|word| self.heap.blocks.find(word).is_some())
    }

    fn is_rust_string(&self, data: u64, bytes: u64, capacity: u64, length: u64) -> bool {
        let fits = capacity > 3 && capacity <= bytes && length > 3 && length <= capacity && fills(capacity, bytes);
        fits && self.heap.copy.bytes(data, length.min(64)).is_some_and(is_text)
    }

    /// Marks the map and the chunks of a deque whose first word is `words[at]`.
    fn deque(&mut self, words: WordSlice, at: usize, map: u32) {
        let word = |next: usize| words.get(at + next).unwrap_or(0);
        let chunk = |first: usize| word(first + 1).wrapping_sub(word(first)) == 512;
        if !chunk(3) || !chunk(7) {
            return;
        }
        let whole = self.heap.blocks.get(map);
        let (size, from, to) = (word(1), word(5), word(9));
        let inside = |at: u64| at >= whole.at && at < whole.at + whole.bytes && at.is_multiple_of(8);
        if size < 8
            || size.checked_mul(8).is_none_or(|bytes| bytes > whole.bytes)
            || !inside(from)
            || !inside(to)
            || from > to
        {
            return;
        }
        let first_of = |node: u64| self.heap.word(node);
        if first_of(from) != Some(word(3)) || first_of(to) != Some(word(7)) || self.is_tired() {
            return;
        }
        self.visited += (to - from) / 8;
        self.set(map, "std::deque map");
        let kind = self.kinds.named("std::deque chunk", false);
        for node in (from..=to).step_by(8) {
            if let Some(chunk) = self.heap.word(node).and_then(|chunk| self.heap.blocks.at(chunk)) {
                self.kinds.set(chunk, kind);
            }
        }
    }

    /// Marks the buckets and nodes of a hash table whose first word is `words[at]`.
    fn unordered(&mut self, words: WordSlice, at: usize) {
        let [buckets, count, first, nodes] = [0, 1, 2, 3].map(|next| words.get(at + next).unwrap_or(0));
        let blocks = self.heap.blocks;
        if count == 0 || nodes == 0 || nodes > blocks.len() as u64 || (first == 0) != (nodes == 0) {
            return;
        }
        // If there is one bucket, it is in the table itself.
        let of_buckets = blocks.at(buckets);
        let fits = |block: u32| count.checked_mul(8).is_some_and(|bytes| bytes <= blocks.get(block).bytes);
        if !(of_buckets.is_some_and(fits) || count == 1) {
            return;
        }
        let mut chain = Vec::new();
        let mut node = first;
        // All chains together have at most as many nodes as there are blocks, unless the process is hostile.
        while node != 0 && (chain.len() as u64) < nodes && !self.is_tired() {
            self.visited += 1;
            let Some(block) = blocks.at(node) else { return };
            chain.push(block);
            let Some(next) = self.heap.word(node) else { return };
            node = next;
        }
        if node != 0 || chain.len() as u64 != nodes {
            return;
        }
        if let Some(block) = of_buckets {
            self.set(block, "std::unordered_* buckets");
        }
        let kind = self.kinds.named("std::unordered_* node", false);
        chain.into_iter().for_each(|block| self.kinds.set(block, kind));
    }

    /// Marks a hashbrown table whose control bytes are inside of a block.
    fn hashbrown(&mut self, control: u64, [mask, room, items]: [u64; 3], block: u32) {
        const MIRRORED: u64 = 16;
        let whole = self.heap.blocks.get(block);
        let buckets = mask.wrapping_add(1);
        if mask < 3 || !buckets.is_power_of_two() || items > mask || room > mask || items == 0 || self.kinds.has(block)
        {
            return;
        }
        let (before, behind) = (control - whole.at, whole.at + whole.bytes - control);
        if before < buckets
            || behind < buckets + MIRRORED
            || self.visited > 64 * (self.heap.blocks.len() as u64 + buckets)
        {
            return;
        }
        self.visited += buckets / 16;
        let Some(bytes) = self.heap.copy.bytes(control, buckets + MIRRORED) else { return };
        if (bytes.len() as u64) < buckets + MIRRORED {
            return;
        }
        let (first, mirror) = bytes.split_at(buckets as usize);
        let full = first.iter().filter(|byte| **byte < 0x80).count() as u64;
        let odd = first.iter().any(|byte| *byte >= 0x80 && !matches!(byte, 0x80 | 0xff));
        let same = mirror.iter().zip(first).all(|(one, other)| one == other);
        if full == items && same && !odd {
            self.set(block, &format!("hashbrown table, {} B an entry (Rust)", before / buckets));
        }
    }
}

/// Whether a capacity is about the size of its block: allocators round up, at most by a quarter.
fn fills(capacity: u64, bytes: u64) -> bool {
    capacity + 24 >= bytes || capacity >= bytes / 4 * 3
}

fn is_vector(begin: u64, bytes: u64, [end, limit, _]: [u64; 3]) -> bool {
    let (Some(taken), Some(capacity)) = (end.checked_sub(begin), limit.checked_sub(begin)) else { return false };
    taken > 0 && taken <= capacity && capacity <= bytes && fills(capacity, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_fills_its_block() {
        assert!(is_vector(0x1000, 1032, [0x1000 + 8, 0x1000 + 1024, 0]));
        assert!(!is_vector(0x1000, 1032, [0x1000, 0x1000 + 1024, 0]), "nothing proves an empty one");
        assert!(!is_vector(0x1000, 1032, [0x1000 + 8, 0x1000 + 512, 0]));
        assert!(!is_vector(0x1000, 1032, [0x1000 + 1025, 0x1000 + 1024, 0]));
        assert!(!is_vector(0x1000, 1032, [0xfff, 0x2000, 0]));
    }
}
