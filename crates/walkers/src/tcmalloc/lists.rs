//! Finds the lists of free blocks that are in no span: those of thread caches, and the central ones.

use std::collections::BTreeSet;
use std::ops::Range;

use super::release::TcmallocRelease;
use crate::Memory;
use crate::globals::each_word;

/// How many bytes behind a thread cache's lists are searched for the address of the next cache.
const BEHIND: u64 = 256;

/// The most thread caches that are read.
const MOST: usize = 1 << 16;

/// A list of blocks of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// The first block.
    pub head: u64,
    /// The last block, if it is known. Then its link has no meaning.
    pub last: Option<u64>,
    /// The number of blocks, if it is known.
    pub length: Option<u64>,
    /// The size class of the blocks.
    pub class: u8,
}

/// The central lists.
#[derive(Debug, Default)]
pub struct Central {
    /// Chains of free blocks that are in no span.
    pub lists: Vec<List>,
    /// The number of free blocks in spans, by the central lists' own counts.
    pub in_spans: u64,
}

/// Reads the central lists. They are an array of structures, each with the number of its class, by which the array is found.
pub fn central(memory: &dyn Memory, globals: &Range<u64>, sizes: &[u64], release: &TcmallocRelease) -> Option<Central> {
    let fields = &release.central;
    let classes = sizes.len() as u64;
    let mut first = None;
    each_word(memory, globals, |at, word| {
        let is_next = |class: u64| memory.word(at + (class - 1) * fields.bytes) == Some(class);
        if word == 1 && first.is_none() && (2..classes).all(is_next) {
            first = Some(at - fields.class);
        }
    });
    let mut central = Central::default();
    for class in 1..classes {
        let at = first? + (class - 1) * fields.bytes;
        central.in_spans = central.in_spans.saturating_add(memory.word(at + fields.counter)?);
        let used = memory.word(at + fields.used)? & 0xffff_ffff;
        for slot in 0..used.min(fields.most) {
            let at = at + fields.slots + 16 * slot;
            let (head, last) = (memory.word(at)?, Some(memory.word(at + 8)?));
            central.lists.push(List { head, last, length: None, class: class as u8 });
        }
    }
    Some(central)
}

/// The addresses of all thread caches. A cache is recognised by the block sizes of its lists. A global variable points to the first cache,
/// and each cache has the address of the next one.
pub fn caches(memory: &dyn Memory, globals: &Range<u64>, sizes: &[u64], release: &TcmallocRelease) -> BTreeSet<u64> {
    let (mut found, mut left) = (BTreeSet::new(), Vec::new());
    let is_cache = |at: u64| {
        at.is_multiple_of(8)
            && memory.mapping(at).is_some_and(|mapping| mapping.is_heap_like() && mapping.readable)
            && has_sizes(memory, at, sizes, release)
    };
    each_word(memory, globals, |_, word| left.extend(Some(word).filter(|word| is_cache(*word))));
    while let Some(cache) = left.pop() {
        if found.len() < MOST && found.insert(cache) {
            let behind = cache + (release.cache.list * release.cache.lists) as u64;
            let next = (behind..behind + BEHIND).step_by(8).filter_map(|at| memory.word(at));
            left.extend(next.filter(|word| !found.contains(word) && is_cache(*word)));
        }
    }
    found
}

fn has_sizes(memory: &dyn Memory, at: u64, sizes: &[u64], release: &TcmallocRelease) -> bool {
    let size = |class: usize| {
        let place = at.checked_add((class * release.cache.list + release.cache.size) as u64)?;
        memory.word(place).map(|word| word & 0xffff_ffff)
    };
    sizes.len() > 2 && (1..sizes.len()).all(|class| size(class) == Some(sizes[class]))
}

/// The lists of a thread cache. `None` if they cannot be read.
pub fn of_cache(memory: &dyn Memory, at: u64, sizes: &[u64], release: &TcmallocRelease) -> Option<Vec<List>> {
    let mut bytes = vec![0; release.cache.list * sizes.len()];
    memory.read(at, &mut bytes).then_some(())?;
    let list = |(class, bytes): (usize, &[u8])| {
        let head = u64::from_le_bytes(bytes.first_chunk().copied()?);
        let length = u32::from_le_bytes(bytes[8..].first_chunk().copied()?);
        (head != 0 || length != 0).then_some(List { head, last: None, length: Some(length.into()), class: class as u8 })
    };
    Some(bytes.chunks_exact(release.cache.list).enumerate().skip(1).filter_map(list).collect())
}
