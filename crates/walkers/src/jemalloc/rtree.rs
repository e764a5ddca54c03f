//! The tree by which jemalloc finds the extent of an address (`rtree_t`). In: a memory. Out: each tree that proves itself, and its
//! entries.
//!
//! The key is the number of the page. The root is a global array, and nothing names it. But the entry `j` of the leaf at the root's
//! slot `i` has an extent whose address says `i` and `j`. So each word of the global variables that points to such a leaf tells
//! where the root begins, without a symbol.
//!
//! The shapes (`include/jemalloc/internal/rtree.h`), by the address bits that `configure` found and by jemalloc's page:
//!
//! - 48 bits: half of the key in the root, half in the leaf: 18 bits each, or 16 where a page has 64 KiB. An entry is a word.
//! - 57 bits: 15, 15, 15. An entry has two words: the address of the extent, and all else.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use super::release::{ALL, Leaf};
use crate::globals::{each_piece, each_word, globals};
use crate::{Mapping, Memory, PAGE, Processor};

/// How many bits of the key each level takes, and the bytes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of address bits that the tree was built for.
    pub address_bits: u32,
    /// The bytes of jemalloc's page.
    pub page: u64,
    level_bits: u32,
    levels: u32,
    entry: u64,
}

const TWO_LEVELS: Shape = Shape { address_bits: 48, page: 4 << 10, level_bits: 18, levels: 2, entry: 8 };
const THREE_LEVELS: Shape = Shape { address_bits: 57, page: 4 << 10, level_bits: 15, levels: 3, entry: 16 };
const LARGE_PAGES: Shape = Shape { address_bits: 48, page: 64 << 10, level_bits: 16, levels: 2, entry: 8 };

/// The shapes that jemalloc can have on a processor. Only on x86-64 does `configure` ask it for its address bits.
fn shapes(processor: Processor) -> [Shape; 2] {
    match processor {
        Processor::X86_64 => [TWO_LEVELS, THREE_LEVELS],
        Processor::Aarch64 => [LARGE_PAGES, TWO_LEVELS],
    }
}

/// The maximum number of slots of the root that are tried.
const PROOF: u64 = 64;

/// The maximum number of entries of a leaf that are skipped because their extent is newer than the mappings.
const PASSED: u32 = 4096;

/// A tree that was found.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The address of the root's first slot.
    pub root: u64,
    /// Its shape.
    pub shape: Shape,
    /// The range of global variables that contains the root.
    pub globals: Range<u64>,
}

/// An extent's structure begins at a multiple of this.
const ALIGNED: u64 = 64;

/// An entry of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafEntry {
    /// The number of the page: its address divided by the bytes of jemalloc's page.
    pub page: u64,
    /// The address of the `edata_t`.
    pub edata: u64,
    /// The state of the extent. `None` in releases whose entries do not have it.
    pub state: Option<u8>,
    /// The size class, according to the leaf.
    pub class: u8,
    /// Whether the extent is a slab, according to the leaf.
    pub slab: bool,
}

impl Shape {
    fn slots(&self) -> u64 {
        1 << self.level_bits
    }

    fn decode(&self, bytes: &[u8], page: u64, leaf: &Leaf) -> Option<LeafEntry> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let first = word(0)?;
        let (edata, rest, class, slab) = match self.entry {
            // No address of a program has bits above.
            8 => (first & ((1 << 48) - 1), first, first >> 48, first & 1),
            _ => {
                let second = word(8)?;
                (first, second, second >> leaf.class, second >> leaf.slab & 1)
            }
        };
        let edata = edata & !(ALIGNED - 1);
        let state = leaf.state.map(|shift| (rest >> shift & 7) as u8);
        (edata != 0).then_some(LeafEntry { page, edata, state, class: class as u8, slab: slab == 1 })
    }

    /// Visits the entries of a leaf that are not empty. Only resident pages are read.
    fn leaf(&self, memory: &dyn Memory, leaf: u64, first: u64, fields: &Leaf, mut visit: impl FnMut(LeafEntry)) {
        each_piece(memory, &(leaf..leaf + self.slots() * self.entry), |from, bytes| {
            for (at, bytes) in bytes.chunks_exact(self.entry as usize).enumerate() {
                if let Some(entry) = self.decode(bytes, first + (from - leaf) / self.entry + at as u64, fields) {
                    visit(entry);
                }
            }
        });
    }
}

/// All trees in the process. There is usually one. A program with a jemalloc of its own can have a second.
pub fn find(memory: &dyn Memory) -> Vec<Tree> {
    let (mut found, processor): (Vec<Tree>, _) = (Vec::new(), memory.machine().processor);
    for (range, shape) in globals(memory).iter().flat_map(|range| shapes(processor).map(|shape| (range, shape))) {
        let Some(last) = range.end.checked_sub(8 * shape.slots()).filter(|last| *last >= range.start) else { continue };
        let mut refused = HashSet::new();
        each_word(memory, range, |slot, child| {
            let known = found.iter().any(|tree| (tree.root..tree.root + 8 * tree.shape.slots()).contains(&slot));
            if known || child % 64 != 0 || refused.contains(&child) {
                return;
            }
            let Some(index) = proven(memory, &shape, child) else {
                refused.insert(child);
                return;
            };
            // A variable outside of the root may point to a leaf too, so the root must lie in the range and be verified.
            if let Some(root) = slot.checked_sub(8 * index).filter(|root| (range.start..=last).contains(root)) {
                found.extend(Some(Tree { root, shape, globals: range.clone() }).filter(|tree| tree.is_proven(memory)));
            }
        });
    }
    found
}

fn is_heap(memory: &dyn Memory, at: u64) -> bool {
    has(memory, at, 8)
}

/// Whether `bytes` bytes from an address lie in one mapping that can have a heap.
fn has(memory: &dyn Memory, at: u64, bytes: u64) -> bool {
    let fits = |mapping: &Mapping| mapping.is_heap_like() && mapping.readable && mapping.to - at >= bytes;
    memory.mapping(at).is_some_and(fits)
}

/// The slot of the root that must point to `child`. It is computed from the addresses of the extents below. `None` if these do not prove
/// that `child` is a node or leaf of a tree.
fn proven(memory: &dyn Memory, shape: &Shape, child: u64) -> Option<u64> {
    let (mut leaf, mut index) = (child, None);
    if shape.levels == 3 {
        if !has(memory, child, 8 * shape.slots()) {
            return None;
        }
        let (at, word) = first(memory, child, shape.slots() * 8, 8, |_, bytes| {
            let word = u64::from_le_bytes(bytes.try_into().ok()?);
            Some(word).filter(|word| *word != 0)
        })?;
        (leaf, index) = (word, Some(at));
    }
    if leaf % 64 != 0 || !has(memory, leaf, shape.slots() * shape.entry) {
        return None;
    }
    // The lowest addresses are the newest. Extents in memory that was mapped after the mappings were read are skipped.
    let mut left = PASSED;
    // All releases store the address of the extent in the same way, so any layout can be used here.
    let (_, page) = first(memory, leaf, shape.slots() * shape.entry, shape.entry as usize, |at, bytes| {
        let page = page_of(memory, shape, at, index, shape.decode(bytes, 0, &ALL[0].leaf)?);
        left -= 1;
        let is_new = page.is_some_and(|page| !is_heap(memory, page.saturating_mul(shape.page)));
        (!is_new || left == 0).then_some(page)
    })?;
    let page = page.filter(|page| is_heap(memory, page.saturating_mul(shape.page)))?;
    Some(page >> (shape.level_bits * (shape.levels - 1))).filter(|slot| *slot < shape.slots())
}

/// The page, in an entry's extent, to which this place in the tree belongs. `None` if the extent has no such page.
fn page_of(memory: &dyn Memory, shape: &Shape, at: u64, index: Option<u64>, entry: LeafEntry) -> Option<u64> {
    if !is_heap(memory, entry.edata) {
        return None;
    }
    // `e_addr` is the second word of an `edata_t`. The entry may be for the first or the last page of a large extent, or for any page of a
    // slab. A slab across the end of a leaf begins in the leaf before.
    let page = memory.word(entry.edata + 8)? / shape.page;
    let last = page + (memory.word(entry.edata + 16)? / shape.page).checked_sub(1)?;
    let agrees = |page: u64| {
        page % shape.slots() == at && index.is_none_or(|index| page / shape.slots() % shape.slots() == index)
    };
    let within = page.saturating_add(at.wrapping_sub(page) % shape.slots());
    let within = (entry.slab && within <= last).then_some(within);
    let mut pages = [page, last].into_iter().chain(within);
    pages.find(|page| agrees(*page))
}

/// The first entry of a table for which `take` returns something, with its index. Searches at most the first 64 KiB of resident pages that
/// are not all zero: in a huge page (`metadata_thp`), a table can begin with many zero pages.
fn first<T>(
    memory: &dyn Memory,
    table: u64,
    length: u64,
    entry: usize,
    mut take: impl FnMut(u64, &[u8]) -> Option<T>,
) -> Option<(u64, T)> {
    let end = table.checked_add(length)?;
    let mut left: u64 = 1 << 16;
    let mut bytes = [0; PAGE as usize];
    for run in memory.pages().within(table, end) {
        for from in (run.from / PAGE * PAGE..run.to).step_by(PAGE as usize) {
            let (from, to) = (from.max(run.from), (from + PAGE).min(run.to));
            let bytes = &mut bytes[..(to - from) as usize];
            if memory.is_late() || !memory.read(from, bytes) {
                return None;
            }
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            left = left.checked_sub(to - from)?;
            for (at, bytes) in ((from - table) / entry as u64..).zip(bytes.chunks_exact(entry)) {
                if let Some(taken) = take(at, bytes) {
                    return Some((at, taken));
                }
            }
        }
    }
    None
}

impl Tree {
    /// The addresses of the root's slots.
    pub fn root(&self) -> Range<u64> {
        self.root..self.root + 8 * self.shape.slots()
    }

    /// Whether most slots of the root that are in use point to a node or leaf. One slot alone could do so by chance.
    fn is_proven(&self, memory: &dyn Memory) -> bool {
        let (mut good, mut bad) = (0, 0);
        each_word(memory, &self.root(), |slot, child| {
            if good + bad < PROOF {
                let index = is_heap(memory, child).then(|| proven(memory, &self.shape, child)).flatten();
                match index == Some((slot - self.root) / 8) {
                    true => good += 1,
                    false => bad += 1,
                }
            }
        });
        good > bad
    }

    /// Visits each entry that has an extent, in the order of the addresses. Returns the addresses of the nodes and leaves, and how many
    /// words in the nodes are not such addresses. `None` if nodes or leaves overlap: this never happens in jemalloc's own tree, and 20 MiB
    /// of other data can look like 250,000 overlapping leaves.
    pub fn entries(
        &self,
        memory: &dyn Memory,
        fields: &Leaf,
        mut visit: impl FnMut(LeafEntry),
    ) -> Option<(Vec<u64>, u64)> {
        let shape = &self.shape;
        let mut level = vec![(self.root, 0)];
        let (mut places, mut others) = (Places::default(), 0);
        for number in 1..shape.levels {
            let bytes = if number + 1 == shape.levels { shape.slots() * shape.entry } else { shape.slots() * 8 };
            let mut below = Vec::new();
            for (node, first) in level {
                each_word(memory, &(node..node + 8 * shape.slots()), |slot, child| {
                    match child % 64 == 0 && is_heap(memory, child) && places.take(child, bytes) {
                        true => below.push((child, first * shape.slots() + (slot - node) / 8)),
                        false => others += 1,
                    }
                });
            }
            if places.overlap {
                return None;
            }
            level = below;
        }
        for (leaf, first) in level {
            shape.leaf(memory, leaf, first * shape.slots(), fields, &mut visit);
        }
        Some((places.taken.into_keys().collect(), others))
    }
}

/// The address ranges of nodes and leaves.
#[derive(Default)]
struct Places {
    /// The end of each range, by its first address.
    taken: BTreeMap<u64, u64>,
    /// Whether two ranges overlap.
    overlap: bool,
}

impl Places {
    /// Adds the range of a node or leaf. Returns whether it is new and overlaps no other.
    fn take(&mut self, from: u64, bytes: u64) -> bool {
        let to = from.saturating_add(bytes);
        match self.taken.range(..to).next_back() {
            // Two words may point to the same node. The second word is not part of the tree.
            Some((first, _)) if *first == from => false,
            Some((_, end)) if *end > from => {
                self.overlap = true;
                false
            }
            _ => self.taken.insert(from, to).is_none(),
        }
    }
}
