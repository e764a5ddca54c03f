//! Finds the sites that pin pages: divides each byte of the pages in which blocks have been into live, pinned by a site, or empty.
//!
//! A page with a live block cannot be given back. The bytes of the page outside of live blocks are *pinned* by the sites that have blocks
//! in it, in equal parts. This is the Shapley value of the game "the page is free if all sites leave it", which does not depend on an order
//! of leaving. A page without a live block is *empty*: no site pins it, and the allocator keeps it.
//!
//! Blocks are sorted and swept once: O(B log B). A stretch of pages that is empty or within one block is counted in one step.

use std::ops::Range;

use allocanary_trace::stacks::Resident;

use crate::ever::Ever;
use crate::tally::LiveBlock;

/// A live block of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    start: u64,
    end: u64,
    site: usize,
}

/// How a page's free bytes are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// In equal parts among the sites.
    Sites,
    /// In equal parts among the blocks. If only some blocks have a stack, the sum of a site's parts is the same share of the true
    /// value for each site.
    Blocks,
}

/// Bytes of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Bytes of its live blocks in resident pages.
    pub live: u64,
    /// Bytes of its live blocks in pages that are not resident: never written to, or in swap.
    pub untouched: u64,
    /// Free bytes of pages that its blocks keep resident.
    pub pinned: u64,
    /// Free bytes of the pages that it shares with no other site.
    pub alone: u64,
    /// `alone`, plus the empty pages between these pages and the next used pages.
    pub with_holes: u64,
}

/// The bytes of the heap's pages, divided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divided {
    /// The share of each site. The last one is for blocks without a site.
    pub shares: Vec<Share>,
    /// Bytes of the pages with a live block.
    pub holding: u64,
    /// Bytes of empty resident pages in which a block has been. `None` if the resident pages are not known.
    pub empty: Option<u64>,
    /// Resident bytes of pages that never had a block: stacks, data, the allocator's tables, memory that the program
    /// maps itself.
    pub outside: Option<u64>,
}

impl Divided {
    /// The heap's resident bytes: pages with blocks, and empty pages if they are known.
    pub fn resident(&self) -> u64 {
        self.holding + self.empty.unwrap_or(0)
    }

    /// Free bytes of all pages with a block.
    pub fn pinned(&self) -> u64 {
        self.shares.iter().map(|share| share.pinned).sum()
    }

    /// Bytes of live blocks in resident pages.
    pub fn live(&self) -> u64 {
        self.shares.iter().map(|share| share.live).sum()
    }
}

/// Divides the pages, which have `page` bytes each. `site_of` returns the site of a block, below `sites`. If the resident pages are not
/// known, all pages with a block count as resident.
pub fn divide(
    blocks: &[LiveBlock],
    site_of: impl Fn(&LiveBlock) -> Option<usize>,
    sites: usize,
    ever: &Ever,
    resident: Option<&Resident>,
    division: Division,
    page: u64,
) -> Divided {
    let pieces = pieces(blocks, |block| site_of(block).unwrap_or(sites));
    let mut sweep = Sweep::new(pieces, sites + 1, division, page);
    let ranges = match resident {
        Some(resident) => within(ever, resident, page),
        None => ever.stretches(page).collect(),
    };
    for range in &ranges {
        sweep.range(range.clone());
    }
    let mut out = sweep.out;
    for piece in &sweep.pieces {
        out.shares[piece.site].untouched += piece.end - piece.start;
    }
    for share in &mut out.shares {
        share.untouched = share.untouched.saturating_sub(share.live);
        share.with_holes += share.alone;
    }
    if let Some(resident) = resident {
        let all: u64 =
            resident.ranges.iter().map(|range| pages(range, page).map_or(0, |pages| pages.end - pages.start)).sum();
        let heap: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        out.outside = Some(all.saturating_sub(heap).saturating_mul(page));
        out.empty = Some(sweep.empty.saturating_mul(page));
    }
    out
}

/// The blocks in the order of their addresses. If two overlap, as in a damaged trace, the later one is cut to begin after the
/// earlier one.
fn pieces(blocks: &[LiveBlock], site: impl Fn(&LiveBlock) -> usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = blocks
        .iter()
        .map(|block| {
            // A block of 0 bytes has its own address.
            let end = block.address.saturating_add(block.size.max(1));
            Piece { start: block.address, end, site: site(block) }
        })
        .collect();
    pieces.sort_unstable_by_key(|piece| (piece.start, piece.end, piece.site));
    let mut behind = 0;
    for piece in &mut pieces {
        piece.start = piece.start.max(behind);
        piece.end = piece.end.max(piece.start);
        behind = piece.end;
    }
    pieces.retain(|piece| piece.start < piece.end);
    pieces
}

/// The whole pages of a range of addresses.
fn pages(range: &Range<u64>, page: u64) -> Option<Range<u64>> {
    let pages = range.start.div_ceil(page)..range.end / page;
    (pages.start < pages.end).then_some(pages)
}

/// The resident pages in which a block has been, in order.
fn within(ever: &Ever, resident: &Resident, page: u64) -> Vec<Range<u64>> {
    let mut out = Vec::new();
    let mut ranges = resident.ranges.iter().filter_map(|range| pages(range, page)).peekable();
    for stretch in ever.stretches(page) {
        while let Some(range) = ranges.peek() {
            let both = stretch.start.max(range.start)..stretch.end.min(range.end);
            if both.start < both.end {
                out.push(both);
            }
            if range.end > stretch.end {
                break;
            }
            ranges.next();
        }
    }
    out
}

/// The sites that have blocks in a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Nobody,
    One(usize),
    Several,
}

struct Sweep {
    pieces: Vec<Piece>,
    /// The first piece that does not end before the present page.
    at: usize,
    division: Division,
    /// The size of a page.
    bytes: u64,
    out: Divided,
    /// Empty pages.
    empty: u64,
    /// The holder of the page before the empty pages that were just passed, and the number of these pages.
    left: Holder,
    passed: u64,
    /// The sites of the present page, with the number of their blocks in it.
    here: Vec<(usize, u64)>,
}

impl Sweep {
    fn new(pieces: Vec<Piece>, sites: usize, division: Division, bytes: u64) -> Sweep {
        let out = Divided { shares: vec![Share::default(); sites], ..Divided::default() };
        Sweep { pieces, at: 0, division, bytes, out, empty: 0, left: Holder::Nobody, passed: 0, here: Vec::new() }
    }

    /// A range of pages without a gap.
    fn range(&mut self, range: Range<u64>) {
        let mut page = range.start;
        while page < range.end {
            while self.pieces.get(self.at).is_some_and(|piece| piece.end <= page.saturating_mul(self.bytes)) {
                self.at += 1;
            }
            let first = self.pieces.get(self.at).map_or(range.end, |piece| piece.start / self.bytes);
            if first > page {
                let count = first.min(range.end) - page;
                self.empty += count;
                self.passed += count;
                page += count;
                continue;
            }
            let piece = self.pieces[self.at];
            let full = match piece.start <= page.saturating_mul(self.bytes) {
                true => (piece.end / self.bytes).min(range.end).saturating_sub(page),
                false => 0,
            };
            if full > 0 {
                self.out.shares[piece.site].live += full * self.bytes;
                self.holder(Holder::One(piece.site));
            } else {
                self.shared(page);
            }
            self.out.holding += full.max(1) * self.bytes;
            page += full.max(1);
        }
        self.holder(Holder::Nobody);
    }

    /// A page that no block fills.
    fn shared(&mut self, page: u64) {
        let (from, to) = (page * self.bytes, (page * self.bytes).saturating_add(self.bytes));
        let (mut free, mut blocks) = (self.bytes, 0);
        self.here.clear();
        for piece in self.pieces[self.at..].iter().take_while(|piece| piece.start < to) {
            let bytes = piece.end.min(to) - piece.start.max(from);
            free -= bytes;
            blocks += 1;
            self.out.shares[piece.site].live += bytes;
            match self.here.iter_mut().find(|(site, _)| *site == piece.site) {
                Some((_, count)) => *count += 1,
                None => self.here.push((piece.site, 1)),
            }
        }
        let parts = if self.division == Division::Sites { self.here.len() as u64 } else { blocks };
        let (mut before, mut given) = (0, 0);
        for (site, count) in &self.here {
            before += if self.division == Division::Sites { 1 } else { *count };
            // The parts are rounded so that they add up.
            let until = free * before / parts;
            self.out.shares[*site].pinned += until - given;
            given = until;
        }
        let holder = match self.here[..] {
            [(site, _)] => {
                self.out.shares[site].alone += free;
                Holder::One(site)
            }
            _ => Holder::Several,
        };
        self.holder(holder);
    }

    /// `right` holds the next page after the empty ones. If a site alone holds the page on one side, the empty pages could
    /// be given back together with its own.
    fn holder(&mut self, right: Holder) {
        let bytes = std::mem::take(&mut self.passed) * self.bytes;
        if let Holder::One(site) = self.left {
            self.out.shares[site].with_holes += bytes;
        }
        if let Holder::One(site) = right
            && right != self.left
        {
            self.out.shares[site].with_holes += bytes;
        }
        self.left = right;
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests;
