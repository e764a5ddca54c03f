//! Finds the map by which tcmalloc looks up the span of a page (`src/pagemap.h`), verifies it, and reads its spans.
//!
//! The root is an array in the page heap, a global variable without a symbol of its own. But entry `j` of the leaf at the root's slot `i`
//! leads to a span that contains page `i`, `j`. So `i` can be computed from the leaf, and the address of the slot that points to the leaf
//! gives the begin of the root. A span has an entry for its first and its last page, and a span of small blocks for each page. Other
//! entries are out of date.

use std::ops::Range;

use super::release::{ALL, TcmallocRelease};
use super::span::PageSpan;
use crate::globals::{each_piece, each_word, globals};
use crate::{Memory, Window};

/// The most entries of a leaf, and the most leaves, that are checked.
const PROOF: u64 = 64;

const PAGE: u64 = 4096;

/// The most leaves that one page of the root points to. This is enough for a heap of 256 GiB: a leaf is for 2 GiB.
const MOST_LEAVES: usize = 128;

/// A map.
#[derive(Clone, Debug)]
pub struct SpanMap {
    /// The root's first slot.
    pub root: u64,
    /// The range of global variables that contains the root.
    pub globals: Range<u64>,
    /// The release whose layout fits.
    pub release: &'static TcmallocRelease,
}

/// The spans of a map.
#[derive(Debug, Default)]
pub struct Spans {
    /// In the order of their addresses. No two overlap.
    pub spans: Vec<PageSpan>,
    /// The leaves.
    pub leaves: Vec<u64>,
    /// Entries whose span could not be read, or is elsewhere.
    pub breaks: u64,
}

impl SpanMap {
    /// The bytes of a leaf.
    pub fn leaf_bytes(&self) -> u64 {
        8 << self.release.leaf_bits
    }

    fn root_bytes(&self) -> u64 {
        8 << self.release.root_bits
    }
}

/// All maps in the process. There is usually one.
pub fn find(memory: &dyn Memory) -> Vec<SpanMap> {
    let mut found: Vec<SpanMap> = Vec::new();
    for (range, release) in globals(memory).iter().flat_map(|range| ALL.iter().map(move |release| (range, release))) {
        let Some(last) = range.end.checked_sub(8 << release.root_bits).filter(|last| *last >= range.start) else {
            continue;
        };
        for (slot, leaf) in candidates(memory, range, release) {
            if found.iter().any(|map| (map.root..map.root + map.root_bytes()).contains(&slot)) {
                continue;
            }
            let Some(index) = proven(memory, leaf, release) else { continue };
            if let Some(root) = slot.checked_sub(8 * index).filter(|root| (range.start..=last).contains(root)) {
                let map = SpanMap { root, globals: range.clone(), release };
                found.extend(Some(map).filter(|map| map.is_proven(memory)));
            }
        }
    }
    found
}

/// The words of a range of variables that may be slots of a root, each with the leaf that it would point to. Checking a leaf takes about 50
/// reads, and a program may have an array of a million pointers. So a page with more than [`MOST_LEAVES`] such words is not taken for a
/// part of a root.
fn candidates(memory: &dyn Memory, range: &Range<u64>, release: &TcmallocRelease) -> Vec<(u64, u64)> {
    let page_of = |slot: u64| slot / PAGE;
    let mut all: Vec<(u64, u64)> = Vec::new();
    let mut begin = 0;
    each_word(memory, range, |slot, leaf| {
        if all.last().is_some_and(|(last, _)| page_of(*last) != page_of(slot)) {
            begin = all.len();
        }
        // Stops at one more than the limit: this is enough to see that the page has too many.
        let is_full = all.len() - begin > MOST_LEAVES;
        if !is_full && leaf.is_multiple_of(8) && is_heap(memory, leaf, 8 << release.leaf_bits) {
            all.push((slot, leaf));
        }
    });
    let pages = all.chunk_by(|(one, _), (other, _)| page_of(*one) == page_of(*other));
    pages.filter(|page| page.len() <= MOST_LEAVES).flatten().copied().collect()
}

fn is_heap(memory: &dyn Memory, at: u64, bytes: u64) -> bool {
    let fits = |to: u64| at.checked_add(bytes).is_some_and(|end| end <= to);
    memory.mapping(at).is_some_and(|mapping| mapping.is_heap_like() && mapping.readable && fits(mapping.to))
}

/// The slot of the root that must point to this leaf. `None` if the spans of its first entries do not prove that it is a leaf.
fn proven(memory: &dyn Memory, leaf: u64, release: &TcmallocRelease) -> Option<u64> {
    if !leaf.is_multiple_of(8) || !is_heap(memory, leaf, 8 << release.leaf_bits) {
        return None;
    }
    let (mut left, mut window) = (PROOF, Window::of_pages(memory));
    for run in memory.pages().within(leaf, leaf + (8 << release.leaf_bits)).filter(|run| run.state.is_resident()) {
        for at in (run.from.max(leaf)..run.to).step_by(8) {
            let word = window.word(at)?;
            if word == 0 {
                continue;
            }
            left = left.checked_sub(1)?;
            let Some(span) = span(memory, &mut Window::of_pages(memory), word, release) else { continue };
            let (page, entry) = (span.from >> release.page_shift, (at - leaf) / 8);
            // The entry can be for any page of the span, which is in the leaf of its first page or in a later one.
            let page = page + (entry.wrapping_sub(page) & ((1 << release.leaf_bits) - 1));
            if page < span.to >> release.page_shift && is_heap(memory, span.from, 1) {
                return Some(page >> release.leaf_bits);
            }
        }
    }
    None
}

fn span(memory: &dyn Memory, window: &mut Window, at: u64, release: &TcmallocRelease) -> Option<PageSpan> {
    // Most words that lead to no span are not even addresses. Asking for the mapping is cheaper than a read.
    let bytes = is_heap(memory, at, 8).then(|| window.bytes(at, release.span.bytes))??;
    PageSpan::parse(at, bytes, release)
}

impl SpanMap {
    /// Whether most used slots of the root point to the leaves that must be there. One leaf alone could fit by chance.
    fn is_proven(&self, memory: &dyn Memory) -> bool {
        let (mut good, mut bad) = (0, 0);
        each_word(memory, &(self.root..self.root + self.root_bytes()), |slot, leaf| {
            if good + bad < PROOF {
                match proven(memory, leaf, self.release) == Some((slot - self.root) / 8) {
                    true => good += 1,
                    false => bad += 1,
                }
            }
        });
        good > bad
    }

    /// Reads all spans.
    pub fn spans(&self, memory: &dyn Memory) -> Spans {
        let (mut found, mut leaves) = (Spans::default(), Vec::new());
        each_word(memory, &(self.root..self.root + self.root_bytes()), |slot, leaf| {
            let overlaps = |(_, other): &(u64, u64)| other.abs_diff(leaf) < self.leaf_bytes();
            match leaf % 8 == 0 && is_heap(memory, leaf, self.leaf_bytes()) && !leaves.iter().any(overlaps) {
                true => leaves.push(((slot - self.root) / 8, leaf)),
                false => found.breaks += 1,
            }
        });
        let (mut end, mut window) = (0, Window::of_pages(memory));
        for (index, leaf) in leaves {
            each_piece(memory, &(leaf..leaf + self.leaf_bytes()), |from, bytes| {
                for (at, word) in bytes.chunks_exact(8).enumerate() {
                    let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                    let page = (index << self.release.leaf_bits) + (from - leaf) / 8 + at as u64;
                    let page = page << self.release.page_shift;
                    if word == 0 || page < end {
                        continue;
                    }
                    match span(memory, &mut window, word, self.release).filter(|span| span.from == page) {
                        Some(span) => {
                            end = span.to;
                            found.spans.push(span);
                        }
                        None => found.breaks += 1,
                    }
                }
            });
            found.leaves.push(leaf);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    const GLOBALS: u64 = 0x5000_0000_0000;
    const HEAP: u64 = 0x7200_0000_0000;

    #[test]
    fn an_array_of_pointers_is_no_root() {
        let mut fake = FakeMemory::default();
        fake.map(GLOBALS, 4 << 20, true, 0, "");
        fake.map(HEAP, 8 << 20, true, 0, "");
        // A page of the root of a heap of 256 GiB, a page with one slot more, an array, and a page with one slot.
        let slots: [(u64, u64); 4] = [(0, 128), (PAGE, 129), (2 * PAGE, 4000), (16 * PAGE + 8, 1)];
        for (at, count) in slots {
            let words: Vec<u64> = (0..count).map(|number| HEAP + 8 * number).collect();
            fake.put(GLOBALS + at, &words);
        }
        let found = candidates(&fake.done(), &(GLOBALS..GLOBALS + (4 << 20)), &ALL[0]);
        let places: Vec<u64> = found.iter().map(|(slot, _)| slot - GLOBALS).collect();
        let wanted: Vec<u64> = (0..128).map(|number| 8 * number).chain([16 * PAGE + 8]).collect();
        assert_eq!(places, wanted);
    }
}
