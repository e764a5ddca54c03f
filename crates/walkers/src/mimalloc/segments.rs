//! Finds the segments of mimalloc 2, and their pages.
//!
//! A segment consists of slices of 64 KiB, mostly 512, and begins at a multiple of its length. It has an entry for each slice. The first
//! entry of each page or free range has the number of its slices. Two checks show that a segment is right: the entries lead from the first
//! slice exactly to the last one, and the number of pages is the segment's own count. The `cookie` of a segment is its own address XOR a
//! number that is the same in the whole process.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::older::{ALL, Number, Older, OlderStart};
use super::page::{MiPage, Origin, SLICE};
use crate::Memory;

/// The segments of all releases begin at multiples of this.
const ALIGNED: u64 = 32 << 20;

/// No address is so large, on any processor.
const MOST_ADDRESS: u64 = 1 << 48;

/// The most heaps that are read from the lists.
const MOST: usize = 1 << 16;

/// `MI_HUGE_BLOCK_SIZE`: where block sizes have four bytes, a block of at least this size is as large as its page.
const HUGE: u64 = 2 << 30;

/// A segment.
#[derive(Debug)]
pub struct MimallocSegment {
    /// Its address.
    pub at: u64,
    /// The number of its slices.
    pub slices: u64,
    /// The number of its first slices, which hold its structures.
    pub own: u64,
    cookie: u64,
    /// Its pages.
    pub pages: Vec<MiPage>,
    /// Entries that cannot be pages.
    pub breaks: u64,
    /// The bytes of their slices.
    pub skipped: u64,
}

/// The segments of a process.
#[derive(Debug)]
pub struct Segments {
    /// The release whose layout fits.
    pub release: &'static Older,
    /// In the order of their addresses.
    pub segments: Vec<MimallocSegment>,
    /// Segments that were left out because their `cookie` differs from that of the others.
    pub breaks: u64,
}

/// The heap, read with the layout that fits most segments. Of several, the one with the fewest wrong entries, then with the smallest
/// difference to the threads' counts.
pub fn find(memory: &dyn Memory) -> Option<Segments> {
    let places = places(memory);
    let heaps =
        ALL.iter().map(|release| Segments::read(memory, &places, release)).filter(|heap| heap.pages().next().is_some());
    let wrong = |heap: &Segments| heap.segments.iter().map(|segment| segment.breaks).sum::<u64>();
    let owners_wrong = |heap: &Segments| {
        let (wanted, found) = heap.owned(memory);
        wanted.abs_diff(found)
    };
    heaps.min_by_key(|heap| (usize::MAX - heap.segments.len(), wrong(heap), owners_wrong(heap)))
}

/// The resident addresses where a segment can begin.
fn places(memory: &dyn Memory) -> Vec<u64> {
    let mut places = Vec::new();
    for mapping in memory.mappings().iter().filter(|mapping| mapping.is_heap_like() && mapping.readable) {
        for run in memory.pages().within(mapping.from, mapping.to).filter(|run| run.state.is_resident()) {
            let first = run.from.next_multiple_of(ALIGNED);
            places.extend((first..run.to).step_by(ALIGNED as usize));
        }
    }
    places
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn number(bytes: &[u8], at: &Number) -> Option<u64> {
    let mut word = [0; 8];
    word[..at.bytes].copy_from_slice(bytes.get(at.at..at.at + at.bytes)?);
    Some(u64::from_le_bytes(word))
}

impl MimallocSegment {
    fn read(memory: &dyn Memory, at: u64, release: &'static Older) -> Option<MimallocSegment> {
        let fields = &release.segment;
        let mut bytes = vec![0; fields.first];
        memory.read(at, &mut bytes).then_some(())?;
        let (slices, own) = (word(&bytes, fields.slices)?, word(&bytes, fields.own)?);
        let (entries, kind) = (word(&bytes, fields.entries)?, word(&bytes, fields.kind)? & 0xffff_ffff);
        let used = word(&bytes, fields.used)?;
        let place = at.is_multiple_of(fields.most * SLICE);
        let fits = place && own > 0 && own < entries && entries <= fields.most && entries <= slices && kind <= 1;
        if !fits || at.checked_add(slices.checked_mul(SLICE)?)? >= MOST_ADDRESS || kind == 0 && slices != entries {
            return None;
        }
        let mut bytes_of_slices = vec![0; release.page.bytes * entries as usize];
        memory.read(at + fields.first as u64, &mut bytes_of_slices).then_some(())?;
        let cookie = word(&bytes, fields.cookie)? ^ at;
        let mut segment = MimallocSegment { at, slices, own, cookie, pages: Vec::new(), breaks: 0, skipped: 0 };
        let (mut slice, mut pages) = (0, 0);
        while slice < entries {
            let entry = &bytes_of_slices[release.page.bytes * slice as usize..][..release.page.bytes];
            let count = number(entry, &Number { at: release.page.count, bytes: 4 })?;
            if count == 0 || slice + count > slices || slice == 0 && count != own {
                return None;
            }
            let block = number(entry, &release.page.block_size)?;
            if slice > 0 && block > 1 {
                pages += 1;
                let place = at + fields.first as u64 + release.page.bytes as u64 * slice;
                let (from, bytes, slack) = (at + slice * SLICE, count * SLICE, release.page.slack[kind as usize]);
                match parse(place, entry, from, bytes, release) {
                    Some(page) if is_filled(&page, from + bytes, slack) => segment.pages.push(page),
                    _ => {
                        segment.breaks += 1;
                        segment.skipped += count * SLICE;
                    }
                }
            }
            slice += count;
        }
        segment.breaks += used.abs_diff(pages).min(entries);
        let whole = if kind == 1 { slice <= slices } else { slice == entries };
        (whole && segment.breaks <= segment.pages.len() as u64 + 1).then_some(segment)
    }
}

/// Whether a page with one block has less than `slack` unused bytes. This finds a damaged size, which could still be within the page.
fn is_filled(page: &MiPage, end: u64, slack: u64) -> bool {
    let room = end - page.start;
    room / page.block > 1 || room - page.block < slack
}

/// Reads a page from its entry. `None` if the fields cannot be those of a page.
fn parse(at: u64, entry: &[u8], from: u64, bytes: u64, release: &Older) -> Option<MiPage> {
    let fields = &release.page;
    let half = |at: usize| number(entry, &Number { at, bytes: 2 });
    let mut block = number(entry, &fields.block_size)?;
    if fields.block_size.bytes == 4 && block >= HUGE {
        (bytes >= HUGE).then_some(())?;
        block = bytes;
    }
    let start = match fields.start {
        OlderStart::Field(at) => word(entry, at)?,
        OlderStart::Fixed(bytes) => from + if (8..=1024).contains(&block) { bytes } else { 0 },
        OlderStart::Blocks => {
            from + match block {
                8..=64 => 3 * block,
                65..=512 => block,
                _ => 0,
            }
        }
    };
    let (used, capacity, reserved) = (number(entry, &fields.used)?, half(fields.capacity)?, half(fields.reserved)?);
    let room = (from + bytes).checked_sub(start).filter(|_| start >= from)?;
    let whole = block >= 8 && block.is_multiple_of(8) && reserved > 0 && room.checked_div(block)? >= reserved;
    // A page has as many blocks as fit.
    let fills = room.checked_div(block)? == reserved;
    (whole && fills && used <= capacity && capacity <= reserved).then_some(MiPage {
        at,
        start,
        block,
        used: used as u16,
        capacity: capacity as u16,
        free: [word(entry, fields.free)?, word(entry, fields.local_free)?],
        freed_by_others: word(entry, fields.xthread_free)? & !3,
        owner: word(entry, fields.heap)?,
        owned: word(entry, fields.heap)? != 0,
        origin: Origin::Segment { from, bytes },
    })
}

impl Segments {
    /// Reads the segments of a release that begin at some of these places.
    fn read(memory: &dyn Memory, places: &[u64], release: &'static Older) -> Segments {
        let mut segments: Vec<MimallocSegment> =
            places.iter().filter_map(|at| MimallocSegment::read(memory, *at, release)).collect();
        let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
        segments.iter().for_each(|segment| *numbers.entry(segment.cookie).or_default() += 1);
        let number = numbers.into_iter().max_by_key(|(_, count)| *count).map(|(number, _)| number);
        let all = segments.len();
        segments.retain(|segment| Some(segment.cookie) == number);
        Segments { release, breaks: (all - segments.len()) as u64, segments }
    }

    /// Reads the same heap from a copy of its structures.
    pub fn copied(&self, copy: &dyn Memory) -> Segments {
        Segments::read(copy, &places(copy), self.release)
    }

    /// The ranges of its structures: those of the segments, and the counts of the threads' heaps.
    pub fn structures(&self, memory: &dyn Memory) -> Vec<Range<u64>> {
        let fields = &self.release.segment;
        let bytes = |segment: &MimallocSegment| {
            fields.first as u64 + segment.slices.min(fields.most) * self.release.page.bytes as u64
        };
        let segments = self.segments.iter().map(|segment| segment.at..segment.at.saturating_add(bytes(segment)));
        let heap = &self.release.heap;
        let last = 8 + heap.page_count.max(heap.delayed).max(heap.next);
        segments.chain(self.owners(memory).into_iter().map(|at| at..at.saturating_add(last))).collect()
    }

    /// All pages.
    pub fn pages(&self) -> impl Iterator<Item = &MiPage> {
        self.segments.iter().flat_map(|segment| &segment.pages)
    }

    /// Reads a page's counts again. `None` if its structure was reused for another page.
    pub fn again(&self, memory: &dyn Memory, page: &MiPage) -> Option<MiPage> {
        let Origin::Segment { from, bytes } = page.origin else { return None };
        let mut entry = vec![0; self.release.page.bytes];
        let now = memory.read(page.at, &mut entry).then(|| parse(page.at, &entry, from, bytes, self.release))??;
        (now.start == page.start && now.block == page.block).then_some(now)
    }

    /// The heaps of threads: those that own a page, and the other heaps of the same threads.
    pub fn owners(&self, memory: &dyn Memory) -> BTreeSet<u64> {
        let fields = &self.release.heap;
        let after = |at: u64, bytes: u64| memory.word(at.checked_add(bytes)?).filter(|at| *at != 0);
        let mut owners: BTreeSet<u64> = self.pages().filter(|page| page.owned).map(|page| page.owner).collect();
        let threads: BTreeSet<u64> = owners.iter().filter_map(|owner| after(*owner, 0)).collect();
        let mut seen = BTreeSet::new();
        for thread in threads {
            let mut at = after(thread, fields.of_thread);
            while let Some(heap) = at.filter(|heap| seen.len() < MOST && seen.insert(*heap)) {
                owners.insert(heap);
                at = after(heap, fields.next);
            }
        }
        owners
    }

    /// The number of pages that threads own: by the counts of their heaps, and as found.
    pub fn owned(&self, memory: &dyn Memory) -> (u64, u64) {
        let count = |owner: &u64| memory.word(owner.checked_add(self.release.heap.page_count)?);
        let wanted = self.owners(memory).iter().filter_map(count).fold(0, u64::saturating_add);
        (wanted, self.pages().filter(|page| page.owned).count() as u64)
    }

    /// The blocks of full pages that other threads have freed: they are in lists of the threads' heaps, not of the pages. Also returns how
    /// many of these lists lead to something else than a block.
    pub fn delayed(&self, memory: &dyn Memory) -> (BTreeSet<u64>, u64) {
        let (mut all, mut breaks) = (BTreeSet::new(), 0);
        let mut pages: Vec<&MiPage> = self.pages().collect();
        pages.sort_unstable_by_key(|page| page.start);
        let is_block = |at: u64| {
            let page = pages[..pages.partition_point(|page| page.start <= at)].last();
            page.is_some_and(|page| page.index(at).is_some())
        };
        for owner in self.owners(memory) {
            let mut at = owner.checked_add(self.release.heap.delayed).and_then(|at| memory.word(at)).unwrap_or(0);
            while at != 0 {
                if !is_block(at) || !all.insert(at) {
                    breaks += 1;
                    break;
                }
                at = memory.word(at).unwrap_or(0);
            }
        }
        (all, breaks)
    }
}
