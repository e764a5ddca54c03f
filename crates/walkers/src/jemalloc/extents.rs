//! The extents of a heap. In: a tree, and the release. Out: each extent once, in the order of the addresses, with the bitmaps of slabs.

use super::extent::{Bitmap, Extent, ExtentUse};
use super::release::JemallocRelease;
use super::rtree::{BYTES, LeafEntry, Tree};
use crate::{Memory, PAGE, Window};

/// What was read.
#[derive(Debug, Default)]
pub struct Extents {
    /// In the order of their addresses. No two overlap. With each, the place of its bitmap, if it is a slab in use.
    pub all: Vec<(Extent, Option<u32>)>,
    /// The bitmaps.
    pub bitmaps: Vec<Bitmap>,
    /// The addresses of the tree's nodes and of each `edata_t`.
    pub structures: Vec<u64>,
    /// Whether large extents have a page more than their block (`cache_oblivious:true`).
    padded: bool,
    guesses: Vec<Extent>,
    /// Extents that changed while they were read.
    pub breaks: u64,
    /// The bytes of those that were left out.
    pub skipped: u64,
    /// Of the extents in `breaks`, those for which the tree's entry and the `edata_t` disagree.
    pub disagree: u64,
    /// Extents in use whose pages are not as many as their class wants. A layout that is the right one has none.
    pub misfits: u64,
    /// Of the extents in `breaks`, large blocks that are known by their entry in the tree alone.
    pub guessed: u64,
}

impl Extents {
    /// Reads all extents of a tree by a release. `None` if it is none: its leaves overlap.
    pub fn read(memory: &dyn Memory, tree: &Tree, release: &'static JemallocRelease) -> Option<Extents> {
        // Each extent with its first and its last page. A slab has an entry for each page, another extent for the first and the last.
        let mut spans: Vec<(LeafEntry, u64)> = Vec::new();
        let (structures, breaks) = tree.entries(memory, &release.leaf, |entry| match spans.last_mut() {
            Some((first, last)) if first.edata == entry.edata => *last = entry.page,
            _ => spans.push((entry, entry.page)),
        })?;
        spans.sort_unstable_by_key(|(first, _)| (first.edata, first.page));
        spans.dedup_by(|later, first| {
            let same = later.0.edata == first.0.edata;
            if same {
                first.1 = later.1;
            }
            same
        });
        let mut extents = Extents { structures, breaks, ..Extents::default() };
        let mut window = Window::new(memory);
        for (first, last) in &spans {
            match window.bytes(first.edata, BYTES) {
                Some(bytes) => extents.take(first, *last, bytes, release),
                None => extents.broken(0),
            }
        }
        extents.structures.extend(spans.iter().map(|(first, _)| first.edata));
        extents.sort();
        Some(extents)
    }

    fn take(&mut self, entry: &LeafEntry, last: u64, bytes: &[u8], release: &'static JemallocRelease) {
        let pages = (last - entry.page + 1) * PAGE;
        let spans = |extent: &Extent| extent.from() == entry.page * PAGE && extent.bytes == pages;
        let Some(extent) = Extent::parse(bytes, release).filter(spans) else {
            return self.guess(entry, pages, bytes, release);
        };
        let active = extent.state() == ExtentUse::Active;
        // A free extent keeps the class and the kind that it had.
        let same_blocks = !active || extent.class() == entry.class && extent.slab() == entry.slab;
        if !same_blocks || entry.state.is_some_and(|state| state != extent.state_number()) {
            self.disagree += 1;
            self.breaks += 1;
        }
        let slab = active && extent.slab();
        let bitmap = extent.bitmap(bytes).filter(|_| slab);
        if active
            && (extent.class() >= release.classes.count
                || slab && bitmap.is_none()
                || !slab && extent.usable(PAGE) > extent.bytes)
        {
            return self.broken(extent.bytes);
        }
        self.misfits += u64::from(active && !extent.fits_its_class());
        self.padded |= active && !slab && extent.is_padded();
        self.bitmaps.extend(bitmap);
        self.all.push((extent, bitmap.map(|_| self.bitmaps.len() as u32 - 1)));
    }

    /// An extent that is no longer what its entry in the tree says: the process goes on, and has used the `edata_t` for another one. The
    /// entries were all read within a moment. An `edata_t` stays with its arena.
    fn guess(&mut self, entry: &LeafEntry, pages: u64, bytes: &[u8], release: &'static JemallocRelease) {
        let arena = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        match Extent::of_entry(entry, pages, arena, release) {
            Some(extent) => {
                self.breaks += 1;
                self.guesses.push(extent);
                self.padded |= extent.is_padded();
            }
            None => self.broken(if entry.slab { pages } else { 0 }),
        }
    }

    /// Sorts, and leaves out an extent that begins in another: it was split or merged in the meantime. What is known by the tree alone is
    /// believed last.
    fn sort(&mut self) {
        self.sort_known();
        let guesses = std::mem::take(&mut self.guesses);
        let (breaks, skipped) = (self.breaks, self.skipped);
        let free = guesses.into_iter().filter(|guess| {
            let after = self.all.partition_point(|(extent, _)| extent.from() < guess.to());
            self.all[..after].last().is_none_or(|(extent, _)| extent.to() <= guess.from())
        });
        let free: Vec<_> = free.map(|guess| (guess, None)).collect();
        self.guessed = free.len() as u64;
        self.all.extend(free);
        self.sort_known();
        (self.breaks, self.skipped) = (breaks, skipped);
    }

    fn sort_known(&mut self) {
        self.all.sort_unstable_by_key(|(extent, _)| extent.at);
        let mut end = 0;
        let (mut breaks, mut skipped) = (0, 0);
        self.all.retain(|(extent, _)| {
            let fits = extent.from() >= end;
            if fits {
                end = extent.to();
            } else {
                breaks += 1;
                skipped += extent.bytes.min(end - extent.from());
            }
            fits
        });
        self.breaks += breaks;
        self.skipped += skipped;
    }

    fn broken(&mut self, bytes: u64) {
        self.breaks += 1;
        self.skipped += bytes;
    }

    /// The usable bytes of a large block.
    pub fn usable(&self, extent: &Extent) -> u64 {
        extent.usable(if self.padded { PAGE } else { 0 })
    }

    /// The extent that has the address.
    pub fn at(&self, at: u64) -> Option<&Extent> {
        let after = self.all.partition_point(|(extent, _)| extent.from() <= at);
        self.all[..after].last().map(|(extent, _)| extent).filter(|extent| at < extent.to())
    }

    /// Where the active block begins that has the address.
    pub fn block_of(&self, at: u64) -> Option<u64> {
        let extent = self.at(at).filter(|extent| extent.state() == ExtentUse::Active)?;
        let within = at.checked_sub(extent.at)?;
        Some(if extent.slab() { at - within % extent.block().max(1) } else { extent.at })
    }

    /// The active block that begins at the address: its size class.
    pub fn class_of_block(&self, at: u64) -> Option<u8> {
        let extent = self.at(at).filter(|extent| extent.state() == ExtentUse::Active)?;
        let within = at.checked_sub(extent.at)?;
        let begins = if extent.slab() {
            within % extent.block().max(1) == 0 && within / extent.block().max(1) < extent.regions()
        } else {
            within == 0
        };
        begins.then_some(extent.class())
    }
}
