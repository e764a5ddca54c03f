//! Reads all extents of a heap from its tree: each extent once, in the order of the addresses, with the bitmaps of slabs.

use super::extent::{Extent, ExtentUse};
use super::release::JemallocRelease;
use super::rtree::{LeafEntry, Tree};
use crate::{Memory, Window};

/// The extents of one tree.
#[derive(Debug, Default)]
pub struct Extents {
    /// The extents in the order of their addresses, without overlap. An active slab has the index of its bitmap.
    pub all: Vec<(Extent, Option<u32>)>,
    /// The words of all bitmaps.
    bitmaps: Vec<u64>,
    /// The bytes of jemalloc's page.
    page: u64,
    /// The addresses of the tree's nodes and of all `edata_t`.
    pub structures: Vec<u64>,
    /// Whether large extents have a page more than their block (`cache_oblivious:true`).
    padded: bool,
    guesses: Vec<Extent>,
    /// Extents that changed while they were read.
    pub breaks: u64,
    /// The bytes of extents that were left out.
    pub skipped: u64,
    /// The part of `breaks` where the tree's entry and the `edata_t` disagree.
    pub disagree: u64,
    /// Active extents whose number of pages does not fit their class. With the right layout there are none.
    pub misfits: u64,
    /// The part of `breaks` that are large blocks known only by their entry in the tree.
    pub guessed: u64,
}

impl Extents {
    /// Reads all extents of a tree with the layout of a release. `None` if the leaves of the tree overlap: then it is not a jemalloc tree.
    pub fn read(memory: &dyn Memory, tree: &Tree, release: &'static JemallocRelease) -> Option<Extents> {
        // Each extent with its first and its last page. The tree has an entry for each page of a slab, and for the first and last page of
        // another extent.
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
        let mut extents = Extents { structures, breaks, page: release.page, ..Extents::default() };
        let mut window = Window::new(memory);
        for (first, last) in &spans {
            match window.bytes(first.edata, release.extent_bytes()) {
                Some(bytes) => extents.take(first, *last, bytes, release),
                None => extents.broken(0),
            }
        }
        extents.structures.extend(spans.iter().map(|(first, _)| first.edata));
        extents.sort();
        Some(extents)
    }

    fn take(&mut self, entry: &LeafEntry, last: u64, bytes: &[u8], release: &'static JemallocRelease) {
        let pages = (last - entry.page + 1) * release.page;
        let spans = |extent: &Extent| extent.from() == entry.page * release.page && extent.bytes == pages;
        let Some(extent) = Extent::parse(bytes, release).filter(spans) else {
            return self.guess(entry, pages, bytes, release);
        };
        let active = extent.state() == ExtentUse::Active;
        // A free extent keeps its former class and kind, so these are compared only for active ones.
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
                || !slab && extent.usable(release.page) > extent.bytes)
        {
            return self.broken(extent.bytes);
        }
        self.misfits += u64::from(active && !extent.fits_its_class());
        self.padded |= active && !slab && extent.is_padded();
        let place = bitmap.map(|words| {
            self.bitmaps.extend(words);
            (self.bitmaps.len() - extent.regions().div_ceil(64) as usize) as u32
        });
        self.all.push((extent, place));
    }

    /// Handles an extent that differs from its entry in the tree: the process runs, and has reused the `edata_t` for another extent. The
    /// entry is more reliable, because all entries were read within a moment. The arena comes from the `edata_t`, which always stays in its
    /// arena.
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

    /// Sorts the extents. Removes an extent that begins in another one: it was split or merged in the meantime. Extents known only by the
    /// tree are kept if they overlap no other.
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

    /// The words of a slab's bitmap that begins at a place.
    pub fn bitmap(&self, extent: &Extent, place: u32) -> &[u64] {
        &self.bitmaps[place as usize..][..extent.regions().div_ceil(64) as usize]
    }

    /// The usable bytes of a large block, without the page of padding if there is one.
    pub fn usable(&self, extent: &Extent) -> u64 {
        extent.usable(if self.padded { self.page } else { 0 })
    }

    /// The extent with this address.
    pub fn at(&self, at: u64) -> Option<&Extent> {
        let after = self.all.partition_point(|(extent, _)| extent.from() <= at);
        self.all[..after].last().map(|(extent, _)| extent).filter(|extent| at < extent.to())
    }

    /// The begin of the active block with this address.
    pub fn block_of(&self, at: u64) -> Option<u64> {
        let extent = self.at(at).filter(|extent| extent.state() == ExtentUse::Active)?;
        let within = at.checked_sub(extent.at)?;
        Some(if extent.slab() { at - within % extent.block().max(1) } else { extent.at })
    }

    /// The size class of the active block that begins at this address.
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
