//! Collects what lies on each page of a heap: an allocator's regions, and the blocks in them, in any order. Gives the resident bytes by
//! part and by arena, and how many bytes of each page are live.

use std::ops::Range;

use allocanary_text::parts::in_proportion;
use serde::{Deserialize, Serialize};

use crate::{Memory, OF_HEAP, PAGE, PageState, PageStates, Part, Parts};

/// The kind of a range that a walk finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A block that the program has allocated and not freed.
    Live,
    /// A block that a thread cache keeps.
    Cached,
    /// The allocator's own structures.
    Structure,
    /// Memory whose use the walk could not find out.
    Unknown,
    /// Pages that the allocator has never used, or believes it has given back.
    Unused,
}

/// The bytes of each kind in 4 KiB: on a page, or on a part of a larger one.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    live: u16,
    cached: u16,
    structure: u16,
    unknown: u16,
    unused: u16,
}

/// The bytes of each kind on a page. What is left is free.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    bytes: u64,
    live: u64,
    cached: u64,
    structure: u64,
    unknown: u64,
    unused: u64,
}

/// A region: pages that one arena has from the kernel. Only resident pages are stored, because a region can be far larger: the program may
/// touch little of it, or the length that the walk has read may be wrong.
#[derive(Debug)]
struct Region {
    from: u64,
    to: u64,
    arena: u32,
    /// A run of resident pages.
    rows: Vec<Row>,
    /// The contents of the resident pages, run by run.
    cells: Vec<Cell>,
}

/// A run of resident pages.
#[derive(Debug)]
struct Row {
    from: u64,
    to: u64,
    /// The place of the first one in the region's cells.
    first: usize,
}

impl Region {
    fn new(pages: &PageStates, from: u64, to: u64, arena: u32) -> Region {
        let mut rows: Vec<Row> = Vec::new();
        let mut count = 0;
        for run in pages.within(from, to).filter(|run| run.state.is_resident()) {
            match rows.last_mut() {
                Some(last) if last.to == run.from => last.to = run.to,
                _ => rows.push(Row { from: run.from, to: run.to, first: count }),
            }
            count += ((run.to - run.from) / PAGE) as usize;
        }
        Region { from, to, arena, rows, cells: vec![Cell::default(); count] }
    }

    /// Adds a block, which lies in the region, to the region's resident pages.
    fn put(&mut self, from: u64, to: u64, kind: BlockKind) {
        let first = self.rows.partition_point(|row| row.to <= from);
        for row in self.rows[first..].iter().take_while(|row| row.from < to) {
            let (mut at, end) = (from.max(row.from), to.min(row.to));
            while at < end {
                let index = (at - row.from) / PAGE;
                let stop = (row.from + (index + 1) * PAGE).min(end);
                self.cells[row.first + index as usize].add(kind, stop - at);
                at = stop;
            }
        }
    }

    /// The contents of a page. A page that was not resident when the region was made has none.
    fn page(&self, at: u64, bytes: u64) -> Page {
        let row = self.rows.get(self.rows.partition_point(|row| row.to <= at)).filter(|row| row.from <= at);
        let cells = row.map_or(&[][..], |row| {
            let first = row.first + ((at - row.from) / PAGE) as usize;
            &self.cells[first..first + (bytes.min(row.to - at) / PAGE) as usize]
        });
        cells.iter().fold(Page { bytes, ..Page::default() }, |page, cell| page.with(cell))
    }
}

/// A range of addresses of one arena. It is saved as a list of numbers: its address, its arena, and the bytes of each part of a heap
/// ([`OF_HEAP`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u64>", try_from = "Vec<u64>")]
pub struct ArenaStretch {
    /// Its first address.
    pub from: u64,
    /// The index of its arena.
    pub arena: u32,
    /// Its resident bytes by part.
    pub parts: Parts,
}

impl From<ArenaStretch> for Vec<u64> {
    fn from(stretch: ArenaStretch) -> Vec<u64> {
        let head = [stretch.from, stretch.arena.into()];
        head.into_iter().chain(OF_HEAP.map(|part| stretch.parts.of(part))).collect()
    }
}

impl TryFrom<Vec<u64>> for ArenaStretch {
    type Error = String;

    fn try_from(list: Vec<u64>) -> Result<ArenaStretch, String> {
        let [from, arena, bytes @ ..] = list.as_slice() else { return Err("a stretch has no address".into()) };
        if bytes.len() != OF_HEAP.len() {
            return Err(format!("a stretch has {} parts, wanted {}", bytes.len(), OF_HEAP.len()));
        }
        let mut parts = Parts::default();
        OF_HEAP.into_iter().zip(bytes).for_each(|(part, bytes)| parts.add(part, *bytes));
        let arena = u32::try_from(*arena).map_err(|_| format!("a stretch has arena {arena}"))?;
        Ok(ArenaStretch { from: *from, arena, parts })
    }
}

/// The pages of one allocator's heap, and what lies on them.
#[derive(Debug)]
pub struct Layout {
    /// The bytes of a page.
    page: u64,
    /// In the order of their addresses. No two overlap.
    regions: Vec<Region>,
    /// The index of the last block's region: the next block is mostly in it too.
    last: usize,
    /// Bytes of blocks that are in no region.
    astray: u64,
    /// Each live block, if the memory wants this list.
    live: Option<Vec<HeapBlock>>,
    /// Ranges inside of regions that are not the allocator's: the program took them from the kernel itself.
    holes: Vec<Range<u64>>,
    /// Whether live bytes were spread over pages, because their places are not known.
    is_spread: bool,
}

impl Default for Layout {
    /// One of pages of 4 KiB, without regions.
    fn default() -> Layout {
        Layout { page: PAGE, regions: Vec::new(), last: 0, astray: 0, live: None, holes: Vec::new(), is_spread: false }
    }
}

/// A live block as the program sees it: the address that `malloc` returned, and the usable bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeapBlock {
    /// Its address.
    pub at: u64,
    /// Its usable bytes.
    pub bytes: u64,
}

impl Layout {
    /// Adds a range that an arena has from the kernel, rounded outwards to whole pages. `pages` says which of them are resident. Pages that
    /// are already in a region stay there. Returns whether none were.
    pub fn region(&mut self, pages: &PageStates, from: u64, to: u64, arena: u32) -> bool {
        let page = self.page;
        let (mut from, to) = (from / page * page, to.saturating_add(page - 1) / page * page);
        let mut whole = true;
        while from < to {
            let at = self.regions.partition_point(|region| region.to <= from);
            let next = self.regions.get(at).map_or(u64::MAX, |region| region.from);
            if next <= from {
                whole = false;
                from = self.regions[at].to;
                continue;
            }
            let end = to.min(next);
            whole &= end == to;
            self.regions.insert(at, Region::new(pages, from, end, arena));
            from = end;
        }
        whole
    }

    /// Adds a block to its pages. Bytes in no region count as astray.
    pub fn block(&mut self, at: u64, bytes: u64, kind: BlockKind) {
        let (mut at, end) = (at, at.saturating_add(bytes));
        while at < end {
            let Some(region) = self.find(at) else {
                let after = self.regions.partition_point(|region| region.from <= at);
                let next = self.regions.get(after).map_or(end, |region| region.from.min(end));
                self.astray = self.astray.saturating_add(next - at);
                at = next;
                continue;
            };
            let stop = region.to.min(end);
            region.put(at, stop, kind);
            at = stop;
        }
    }

    /// Spreads `live` bytes evenly over the resident pages of a range, because only their sum is known. The rest of these pages becomes
    /// [`BlockKind::Unknown`].
    pub fn spread(&mut self, pages: &PageStates, range: Range<u64>, live: u64) {
        let all = pages.resident(range.start, range.end);
        let live = live.min(all);
        self.is_spread |= live < all;
        let (mut passed, mut put) = (0, 0);
        for run in pages.within(range.start, range.end).filter(|run| run.state.is_resident()) {
            let mut at = run.from;
            while at < run.to {
                let stop = run.to.min(at / self.page * self.page + self.page);
                passed += stop - at;
                let here = in_proportion(live, passed, all) - put;
                self.block(at, here, BlockKind::Live);
                self.block(at + here, stop - at - here, BlockKind::Unknown);
                (put, at) = (put + here, stop);
            }
        }
    }

    /// An empty layout. It lists each live block if the memory wants this ([`Memory::wants_blocks`]).
    pub fn of(memory: &dyn Memory) -> Layout {
        let live = memory.wants_blocks().then(Vec::new);
        Layout { page: memory.machine().page, live, ..Layout::default() }
    }

    /// Lists `count` adjacent live blocks of `bytes` bytes, if the list is wanted. [`Layout::block`] must add them to the pages separately.
    pub fn list(&mut self, at: u64, bytes: u64, count: u64) {
        if let Some(live) = &mut self.live {
            live.extend((0..count).map(|index| HeapBlock { at: at.wrapping_add(index.wrapping_mul(bytes)), bytes }));
        }
    }

    /// Adds a range inside of a region that is not the allocator's: the program took it from the kernel itself.
    pub fn hole(&mut self, from: u64, to: u64) {
        self.holes.push(from..to);
    }

    /// All ranges of [`Layout::hole`].
    pub fn holes(&self) -> &[Range<u64>] {
        &self.holes
    }

    /// Removes and returns the list of live blocks, in the order in which the walk met them. It is empty unless the memory wanted it.
    pub fn take_live(&mut self) -> Vec<HeapBlock> {
        self.live.take().unwrap_or_default()
    }

    fn find(&mut self, at: u64) -> Option<&mut Region> {
        let has = |region: &Region| region.from <= at && at < region.to;
        if !self.regions.get(self.last).is_some_and(has) {
            let after = self.regions.partition_point(|region| region.from <= at);
            self.last = after.checked_sub(1)?;
        }
        self.regions.get_mut(self.last).filter(|region| has(region))
    }

    /// Bytes of blocks that are in no region; 0 if the walk has understood the heap.
    pub fn astray(&self) -> u64 {
        self.astray
    }

    /// The regions, each as its first address, the first address after it, and its arena.
    pub fn regions(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        self.regions.iter().map(|region| (region.from, region.to, region.arena))
    }

    /// The resident bytes by part, for each arena with an index below `arenas`.
    pub fn parts(&self, pages: &PageStates, arenas: u32) -> Vec<Parts> {
        let mut sums = vec![Parts::default(); arenas as usize];
        self.each_resident(pages, |region, _, page, state| {
            if let Some(sum) = sums.get_mut(region.arena as usize) {
                *sum += page.parts(state);
            }
        });
        sums
    }

    /// How many resident pages have how many live bytes: 17 counts, for no live byte, for up to a sixteenth of a page, up to two, and so on.
    /// None if it is not known where they lie.
    pub fn live_in_a_page(&self, pages: &PageStates) -> Option<[u64; 17]> {
        let mut counts = [0; 17];
        self.each_resident(pages, |_, _, page, _| counts[(page.live.div_ceil(self.page / 16) as usize).min(16)] += 1);
        (!self.is_spread).then_some(counts)
    }

    /// The resident bytes by part of each stretch that has any, in the order of the addresses. Stretches begin at multiples of `bytes`. If
    /// two arenas have pages in one, it is there twice.
    pub fn stretches(&self, pages: &PageStates, bytes: u64) -> Vec<ArenaStretch> {
        let mut all: Vec<ArenaStretch> = Vec::new();
        self.each_resident(pages, |region, at, page, state| {
            let from = at / bytes * bytes;
            match all.last_mut().filter(|last| last.from == from && last.arena == region.arena) {
                Some(last) => last.parts += page.parts(state),
                None => all.push(ArenaStretch { from, arena: region.arena, parts: page.parts(state) }),
            }
        });
        all
    }

    fn each_resident(&self, pages: &PageStates, mut visit: impl FnMut(&Region, u64, Page, PageState)) {
        for region in &self.regions {
            for run in pages.within(region.from, region.to).filter(|run| run.state.is_resident()) {
                for at in (run.from..run.to).step_by(self.page as usize) {
                    visit(region, at, region.page(at, self.page), run.state);
                }
            }
        }
    }
}

impl Cell {
    /// Adds bytes of a kind, at most as many as it has.
    fn add(&mut self, kind: BlockKind, bytes: u64) {
        let sum = match kind {
            BlockKind::Live => &mut self.live,
            BlockKind::Cached => &mut self.cached,
            BlockKind::Structure => &mut self.structure,
            BlockKind::Unknown => &mut self.unknown,
            BlockKind::Unused => &mut self.unused,
        };
        *sum = (u64::from(*sum) + bytes).min(PAGE) as u16;
    }
}

impl Page {
    /// With what lies in a part of it.
    fn with(self, cell: &Cell) -> Page {
        let sum = |bytes: u64, more: u16| bytes + u64::from(more);
        Page {
            bytes: self.bytes,
            live: sum(self.live, cell.live),
            cached: sum(self.cached, cell.cached),
            structure: sum(self.structure, cell.structure),
            unknown: sum(self.unknown, cell.unknown),
            unused: sum(self.unused, cell.unused),
        }
    }

    /// The bytes of a resident page by part. Their sum is one page, even if blocks overlap because the heap changed during the walk.
    fn parts(&self, state: PageState) -> Parts {
        let mut parts = Parts::default();
        let mut left = self.bytes;
        for (part, bytes) in [
            (Part::Live, self.live),
            (Part::Cached, self.cached),
            (Part::Metadata, self.structure),
            (Part::Unknown, self.unknown),
        ] {
            let bytes = bytes.min(left);
            parts.add(part, bytes);
            left -= bytes;
        }
        let rest = match (left == self.bytes, self.unused == self.bytes, state) {
            (true, true, PageState::Huge) => Part::Padding,
            (true, ..) => Part::FreePages,
            (false, ..) => Part::Fragmentation,
        };
        parts.add(rest, left);
        parts
    }
}

#[cfg(test)]
mod tests;
