//! Finds the memory that the allocator took by `mmap` in addition to heaps: blocks with their own pages, and pieces of the main arena where
//! the data segment could not grow. A block is proven by its header, a piece by its chain of blocks up to its fences. The kernel merges
//! adjacent mappings into one, so both may begin at any page. It splits a mapping where the program changes the rights of pages, so both
//! may continue in the next mapping.

use super::arenas::Arena;
use super::choose::{Candidate, anchor, choose};
use super::chunks::{Extent, FENCE, size};
use super::heaps::{Piece, ends_data_segment};
use super::release::Release;
use super::share::{Owner, Share};
use crate::{Mapping, Memory, Window};

/// What to search for. The search is complete when it agrees with the allocator's own counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub release: &'a Release,
    /// The number of blocks that have their own pages.
    pub mmapped: u64,
    /// The bytes of these blocks.
    pub mmapped_bytes: u64,
    /// The main arena, if it is in several pieces.
    pub main: Option<&'a Arena>,
    /// The address where the main arena begins. It need not be the start of a page.
    pub base: u64,
    /// The memory of other C libraries of the process.
    pub share: &'a Share<'a>,
}

/// The blocks and pieces that were found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Blocks that have their own pages: address and bytes.
    pub mmapped: Vec<(u64, u64)>,
    /// The bytes of these blocks.
    pub mmapped_bytes: u64,
    /// Pieces of the main arena.
    pub pieces: Vec<Piece>,
    /// The bytes of these pieces.
    pub piece_bytes: u64,
}

/// Searches all mappings without a file, except for the ranges of `taken`, which are in the order of their addresses. It first looks only
/// where mappings and ranges begin. If blocks or pieces are then missing, it looks at each page.
pub(super) fn find(memory: &dyn Memory, wanted: Wanted, taken: &[(u64, u64)]) -> Found {
    let found = search(memory, wanted, taken, false);
    match wanted.main {
        _ if found.complete(&wanted) => found,
        Some(_) => search(memory, wanted, taken, true),
        None => chosen(memory, &wanted, taken),
    }
}

/// Collects all addresses where a block could begin, and chooses those that agree with the allocator's counts.
fn chosen(memory: &dyn Memory, wanted: &Wanted, taken: &[(u64, u64)]) -> Found {
    let (mut small, page) = (Window::of_pages(memory), memory.machine().page);
    let mut all: Vec<Candidate> = Vec::new();
    for (mapping, end) in searched(memory) {
        for (from, to) in gaps(mapping.from, mapping.to, taken) {
            let (first, limit) = (all.len(), limit(to, end, taken));
            for run in memory.pages().within(from, to) {
                for at in (run.from..run.to).step_by(page as usize) {
                    let bytes = mmapped(&mut small, at, limit, wanted.release, page, true);
                    all.extend(bytes.map(|bytes| Candidate { at, bytes, anchored: false }));
                }
            }
            anchor(&mut all[first..], from, to);
        }
    }
    let mmapped = choose(&all, wanted.mmapped, wanted.mmapped_bytes);
    Found { mmapped_bytes: mmapped.iter().map(|(_, bytes)| bytes).sum(), mmapped, ..Found::default() }
}

fn search(memory: &dyn Memory, wanted: Wanted, taken: &[(u64, u64)], each_page: bool) -> Found {
    let mut found = Found::default();
    let (mut small, page) = (Window::of_pages(memory), memory.machine().page);
    let mut large = Window::new(memory);
    let mut unclear = Vec::new();
    // The end of the last block or piece that was found.
    let mut done = 0;
    for (mapping, end) in searched(memory) {
        for (from, to) in gaps(mapping.from, mapping.to, taken) {
            let limit = limit(to, end, taken);
            let is_base = (from..to).contains(&wanted.base) && wanted.base < from + page;
            let mut at = if is_base { wanted.base } else { from.max(done) };
            while at < to && !found.complete(&wanted) {
                if let Some(bytes) = mmapped(&mut small, at, limit, wanted.release, page, each_page) {
                    found.mmapped.push((at, bytes));
                    found.mmapped_bytes += bytes;
                    at += bytes;
                    done = at;
                } else if let Some(piece) = wanted
                    .main
                    .and_then(|main| piece(memory, &mut small, &mut large, at, limit, main.top, &wanted.share.ends))
                {
                    match wanted.share.owner(piece.from, piece.blocks.to) {
                        Owner::This => found.add(piece),
                        Owner::Another => {}
                        Owner::Unclear => unclear.push(piece),
                    }
                    at = piece.blocks.to;
                    done = at;
                } else if each_page {
                    at = memory.pages().within((at + 1).next_multiple_of(page), to).next().map_or(to, |run| run.from);
                } else {
                    break;
                }
            }
        }
    }
    for piece in unclear {
        if !found.complete(&wanted) {
            found.add(piece);
        }
    }
    if found.mmapped.len() as u64 > wanted.mmapped {
        // Some blocks belong to another C library, or only look like blocks.
        let all: Vec<_> = found.mmapped.iter().map(|&(at, bytes)| Candidate { at, bytes, anchored: false }).collect();
        found.mmapped = choose(&all, wanted.mmapped, wanted.mmapped_bytes);
        found.mmapped_bytes = found.mmapped.iter().map(|(_, bytes)| bytes).sum();
    }
    found
}

impl Found {
    fn add(&mut self, piece: Piece) {
        self.pieces.push(piece);
        self.piece_bytes += piece.blocks.to - piece.from;
    }

    fn complete(&self, wanted: &Wanted) -> bool {
        self.mmapped.len() as u64 == wanted.mmapped
            && self.mmapped_bytes == wanted.mmapped_bytes
            && wanted.main.is_none_or(|main| self.piece_bytes == main.system)
    }
}

/// `DEFAULT_MMAP_THRESHOLD_MAX`: a block of more bytes always has its own pages.
const ALWAYS_OWN: u64 = 32 << 20;

/// The bytes of blocks with their own pages that no longer exist. If the program has replaced them, the new blocks are in an arena. If
/// another block of the same size is at the old address, the old block does not count.
pub(super) fn gone(memory: &dyn Memory, mmapped_then: &[(u64, u64)], release: &Release) -> u64 {
    let (mut window, page) = (Window::of_pages(memory), memory.machine().page);
    let mut is_there = |at: u64, bytes: u64| {
        [false, true].iter().any(|closely| mmapped(&mut window, at, at + bytes, release, page, *closely) == Some(bytes))
    };
    let small = mmapped_then.iter().filter(|(_, bytes)| *bytes <= ALWAYS_OWN);
    small.filter(|(at, bytes)| !is_there(*at, *bytes)).map(|(_, bytes)| bytes).sum()
}

/// The mappings where blocks and pieces can begin. Each has the end of the memory that follows it without a gap.
fn searched(memory: &dyn Memory) -> Vec<(&Mapping, u64)> {
    let mut all: Vec<(&Mapping, u64)> = Vec::new();
    let (mut from, mut end) = (u64::MAX, 0);
    for mapping in memory.mappings().iter().rev().filter(|one| one.is_anonymous()) {
        end = if mapping.to == from { end } else { mapping.to };
        from = mapping.from;
        if mapping.writable && mapping.readable {
            all.push((mapping, end));
        }
    }
    all.reverse();
    all
}

/// The highest end of a block that begins in a gap up to `to`: the begin of the next range in `taken`, or the end of the memory without a
/// gap.
fn limit(to: u64, end: u64, taken: &[(u64, u64)]) -> u64 {
    let next = taken.get(taken.partition_point(|one| one.0 < to)).map_or(u64::MAX, |one| one.0);
    end.min(next)
}

/// The parts of a range that are in no range of `taken`.
fn gaps(from: u64, to: u64, taken: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut at = from;
    let first = taken.partition_point(|one| one.1 <= from);
    for &(start, end) in taken[first..].iter().take_while(|one| one.0 < to) {
        if at < start {
            gaps.push((at, start));
        }
        at = at.max(end);
    }
    if at < to {
        gaps.push((at, to));
    }
    gaps
}

/// The size in bytes of the block with its own pages that begins at `at`. An aligned block has its header further on, but a first header is
/// still at `at`. The sizes in the two headers differ only if the block was resized since. With `closely` the second header is searched
/// too.
fn mmapped(window: &mut Window, at: u64, to: u64, release: &Release, page: u64, closely: bool) -> Option<u64> {
    if window.word(at)? != 0 {
        return None;
    }
    let header = window.word(at + 8)?;
    let bytes = (header & !7).checked_add(release.mmapped_short)?;
    if header & 7 != 2 || bytes == 0 || bytes % page != 0 {
        return None;
    }
    let behind = closely.then(|| aligned(window, at, to, release, page)).flatten();
    behind.or((bytes <= to - at).then_some(bytes))
}

/// The size in bytes of a block that was aligned to at least 64 bytes and at most a page. Its header says how far it is from the start of
/// its pages. A block with a larger alignment that was later moved could be anywhere, and is not searched.
fn aligned(window: &mut Window, at: u64, to: u64, release: &Release, page: u64) -> Option<u64> {
    (6..=page.ilog2()).map(|power| (1 << power) - 16).find_map(|before| {
        let header = window.word(at + before + 8)?;
        let bytes = (header & !7).checked_add(before)?;
        let fits = header & 7 == 2 && bytes % page == 0 && bytes > before && bytes <= to - at;
        (fits && release.mmapped_short == 0 && window.word(at + before)? == before).then_some(bytes)
    })
}

/// The piece of the main arena that begins at an address. The arena's last piece may consist only of its free end. `ends` are the free
/// ends of other main arenas: their pieces end there.
fn piece(
    memory: &dyn Memory,
    small: &mut Window,
    large: &mut Window,
    from: u64,
    limit: u64,
    top: u64,
    ends: &[u64],
) -> Option<Piece> {
    let top = (from <= top && top < limit).then_some(top);
    let whole = Extent { from, to: limit, end: limit, arena: 0, top, shrinks: false };
    if small.word(from + 8)? & 7 != 1 {
        return None;
    }
    if top != Some(from) && !ends.contains(&from) {
        size(small, from, &whole)?;
    }
    let (mut at, mut fences) = (from, 0);
    loop {
        if Some(at) == top {
            let to = at.checked_add(large.word(at + 8)? & !7).filter(|&to| to <= limit && to > at)?;
            let shrinks = ends_data_segment(memory, to);
            return Some(Piece { from, blocks: Extent { to, end: to, shrinks, ..whole } });
        }
        if ends.contains(&at) {
            let to = at.checked_add(large.word(at + 8)? & !7).filter(|&to| to <= limit && to > at)?;
            return Some(Piece { from, blocks: Extent { to, end: to, top: None, ..whole } });
        }
        match size(large, at, &whole)? {
            // A piece ends with two fences. A third fence is before them if otherwise a gap of 16 bytes would remain.
            FENCE => {
                fences += 1;
                at += FENCE;
                if fences >= 2 && at % memory.machine().page == 0 {
                    return Some(Piece { from, blocks: Extent { to: at, end: at, top: None, ..whole } });
                }
                if fences > 3 {
                    return None;
                }
            }
            size if fences == 0 => at += size,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE;
    use crate::fake::FakeMemory;

    const AT: u64 = 0x7f00_0000_0000;

    /// The bytes of a piece with these headers. Each is given with its distance from the start.
    fn piece_bytes(headers: &[(u64, u64)], top: u64) -> Option<u64> {
        let mut fake = FakeMemory::default();
        fake.map(AT, 4 * PAGE, true, 0, "");
        headers.iter().for_each(|&(at, header)| fake.put(AT + at + 8, &[header]));
        let fake = fake.done();
        let (mut small, mut large) = (Window::of_pages(&fake), Window::new(&fake));
        piece(&fake, &mut small, &mut large, AT, AT + 4 * PAGE, top, &[]).map(|piece| piece.blocks.to - piece.from)
    }

    #[test]
    fn a_piece_ends_with_fences_or_with_the_free_end_of_its_arena() {
        assert_eq!(piece_bytes(&[(0, 0x1fe1), (0x1fe0, 0x11), (0x1ff0, 0x11)], AT + 0x9000), Some(0x2000));
        assert_eq!(piece_bytes(&[(0, 0x501), (0x500, 0x1b01)], AT + 0x500), Some(0x2000));
        assert_eq!(piece_bytes(&[(0, 0x501), (0x500, 0x1b01)], AT + 0x9000), None, "no fence");
        assert_eq!(piece_bytes(&[(0, 0x502)], AT + 0x500), None, "a block with its own pages");
    }

    #[test]
    fn a_piece_whose_blocks_are_all_free_is_the_free_end_and_nothing_else() {
        assert_eq!(piece_bytes(&[(0, 0x2001)], AT), Some(0x2000));
        assert_eq!(piece_bytes(&[(0, 0x5001)], AT), None, "longer than its mapping");
    }

    #[test]
    fn a_block_may_end_behind_pages_of_other_rights_and_not_in_what_is_taken() {
        let mut fake = FakeMemory::default();
        fake.map(AT, PAGE, true, 0, "");
        fake.map(AT + PAGE, PAGE, false, 0, "");
        fake.map(AT + 2 * PAGE, 2 * PAGE, true, 0, "");
        fake.map(AT + 4 * PAGE, PAGE, true, 7, "/lib");
        fake.map(AT + 5 * PAGE, PAGE, true, 0, "");
        let ends: Vec<_> =
            searched(&fake).into_iter().map(|(one, end)| ((one.from - AT) / PAGE, (end - AT) / PAGE)).collect();
        assert_eq!(ends, [(0, 4), (2, 4), (5, 6)]);
        assert_eq!(
            (limit(10, 40, &[(0, 5), (20, 30)]), limit(10, 15, &[(20, 30)]), limit(20, 40, &[(20, 30)])),
            (20, 15, 20)
        );
    }

    #[test]
    fn gaps_lie_between_what_is_taken() {
        let taken = [(10, 20), (30, 40), (50, 60)];
        assert_eq!(gaps(0, 100, &taken), [(0, 10), (20, 30), (40, 50), (60, 100)]);
        assert_eq!(gaps(15, 35, &taken), [(20, 30)]);
        assert_eq!(gaps(20, 30, &taken), [(20, 30)]);
        assert_eq!(gaps(11, 19, &taken), []);
    }
}
