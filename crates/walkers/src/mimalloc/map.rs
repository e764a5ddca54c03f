//! Finds the map by which mimalloc looks up the page of an address, verifies it, and reads its pages.
//!
//! A global variable points to the root, a table in its own memory. Entry `i` of the root points to a table of 2^13 entries (64 KiB). Entry
//! `j` of this table points to the page with the slice `i << 13 | j`. The page has the address of its first block, which must be in this
//! slice. Sources: `include/mimalloc/internal.h` and `src/page-map.c`, releases 3.0 to 3.6. In 3.6 the root begins with a count of its
//! entries.

use std::collections::HashSet;
use std::ops::Range;

use super::page::{MiPage, SLICE};
use super::release::{self, MimallocRelease};
use crate::globals::{each_word, globals};
use crate::{Memory, PAGE, Window};

/// log2 of the entries of a table below the root.
const BELOW: u32 = 13;

/// The largest log2 of the root's entries, for addresses of 48 bits. On x86-64 addresses have 47 bits, so half of such a root is used.
const ROOT: u32 = 19;

/// The first entries that are checked: most of them must fit their pages.
const PROOF: usize = 8;

/// A map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMap {
    /// The root's first entry.
    pub root: u64,
    /// The first address after the root.
    pub end: u64,
    /// The release whose layout fits its pages.
    pub release: &'static MimallocRelease,
}

/// The pages of a map.
#[derive(Debug)]
pub struct MapPages {
    /// In the order of their addresses.
    pub pages: Vec<MiPage>,
    /// The tables below the root.
    pub tables: Vec<u64>,
    /// Entries whose page could not be read, or has its blocks elsewhere.
    pub breaks: u64,
}

/// All maps in the process, usually one. Each is listed once for every release whose layout fits.
pub fn find(memory: &dyn Memory) -> Vec<Vec<PageMap>> {
    let mut found: Vec<Vec<PageMap>> = Vec::new();
    let mut seen = HashSet::new();
    for range in globals(memory) {
        each_word(memory, &range, |_, word| {
            if word % PAGE == 0 && is_heap(memory, word) && seen.insert(word) {
                let maps = release::ALL.iter().filter_map(|release| map(memory, word, release));
                let proven: Vec<PageMap> = maps.filter(|map| map.is_proven(memory)).collect();
                found.extend(Some(proven).filter(|proven| !proven.is_empty()));
            }
        });
    }
    found
}

fn is_heap(memory: &dyn Memory, at: u64) -> bool {
    memory.mapping(at).is_some_and(|mapping| mapping.is_heap_like() && mapping.readable)
}

/// The map whose root is at `at`, if the root can be one. Its length is not taken from the mapping, since the kernel can merge the root's
/// mapping with its neighbours.
fn map(memory: &dyn Memory, at: u64, release: &'static MimallocRelease) -> Option<PageMap> {
    let root = at.checked_add(release.map_head)?;
    // Entry 0 points to the table for the lowest addresses. This table lies directly behind the root, and so gives the root's length.
    let end = memory.word(root)?;
    let entries = end.checked_sub(root)? / 8;
    let counted = match release.map_head {
        0 => entries.is_power_of_two(),
        _ => memory.word(at)? == entries,
    };
    let long = entries.checked_ilog2().is_some_and(|bits| (16..=ROOT).contains(&bits));
    (counted && long).then_some(PageMap { root, end, release })
}

impl PageMap {
    /// Whether most of its first pages are where the map says.
    fn is_proven(&self, memory: &dyn Memory) -> bool {
        let (mut good, mut bad) = (0, 0);
        self.entries(memory, |slice, at| {
            if good + bad < PROOF {
                match starts_in(memory, at, slice, self.release) {
                    true => good += 1,
                    false => bad += 1,
                }
            }
            good + bad < PROOF
        });
        good > bad
    }

    /// Visits the entries in the order of the slices, until `visit` returns false. Returns the tables, and how many words in the root are
    /// not the address of a table.
    fn entries(&self, memory: &dyn Memory, mut visit: impl FnMut(u64, u64) -> bool) -> (Vec<u64>, u64) {
        let (mut tables, mut seen, mut others) = (Vec::new(), HashSet::new(), 0);
        each_word(memory, &(self.root..self.end), |at, table| {
            match table % PAGE == 0 && is_heap(memory, table) && seen.insert(table) {
                true => tables.push(((at - self.root) / 8, table)),
                false => others += 1,
            }
        });
        let mut goes_on = true;
        for &(index, table) in &tables {
            if !goes_on {
                break;
            }
            each_word(memory, &(table..table.saturating_add(8 << BELOW)), |at, page| {
                if goes_on {
                    goes_on = visit((index << BELOW) + (at - table) / 8, page);
                }
            });
        }
        (tables.into_iter().map(|(_, table)| table).collect(), others)
    }

    /// Reads all pages.
    pub fn pages(&self, memory: &dyn Memory) -> MapPages {
        // A page has an entry for each of its slices, in a row. Further entries elsewhere are wrong, and hide another page.
        let mut spans: Vec<(u64, u64, u64)> = Vec::new();
        let (tables, others) = self.entries(memory, |slice, page| {
            match spans.last_mut() {
                Some((at, _, last)) if *at == page && *last + 1 == slice => *last = slice,
                _ => spans.push((page, slice, slice)),
            }
            true
        });
        spans.sort_unstable();
        let count = spans.len();
        spans.dedup_by_key(|span| span.0);
        let breaks = others + (count - spans.len()) as u64;
        let mut found = MapPages { pages: Vec::new(), tables, breaks };
        let mut window = Window::new(memory);
        for (at, first, last) in spans {
            if (first, last) == (0, 0) && is_of_nothing(memory, at, self.release) {
                continue;
            }
            let page =
                window.bytes(at, self.release.page.bytes).and_then(|bytes| MiPage::parse(at, bytes, self.release));
            match page.filter(|page| page.start / SLICE == first) {
                Some(page) => found.pages.push(page),
                None => found.breaks += 1,
            }
        }
        found.pages.sort_unstable_by_key(|page| page.start);
        found
    }
}

/// Whether an entry of the lowest slice leads to a page without blocks. No process has memory in that slice, but 3.0.1 has such an entry
/// for freeing a null pointer (`_mi_page_empty`).
fn is_of_nothing(memory: &dyn Memory, at: u64, release: &MimallocRelease) -> bool {
    let fields = &release.page;
    let mut bytes = vec![0; fields.bytes];
    let is_read = memory.read(at, &mut bytes);
    let is_zero = |range: Range<usize>| bytes[range].iter().all(|byte| *byte == 0);
    is_read
        && is_zero(fields.block_size..fields.block_size + 8)
        && [fields.used, fields.capacity, fields.reserved].into_iter().all(|field| is_zero(field..field + 2))
}

/// Whether a slice is one of those with the blocks of the page at `at`.
fn starts_in(memory: &dyn Memory, at: u64, slice: u64, release: &'static MimallocRelease) -> bool {
    let mut bytes = vec![0; release.page.bytes];
    let page = memory.read(at, &mut bytes).then(|| MiPage::parse(at, &bytes, release)).flatten();
    page.is_some_and(|page| {
        (page.start / SLICE..page.end().div_ceil(SLICE).max(page.start / SLICE + 1)).contains(&slice)
    })
}
