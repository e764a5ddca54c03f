//! Heaps that a test writes, and what the walker makes of them.

use std::cell::Cell;

use allocanary_testing::fuzz::holds;

use super::WALKER;
use super::page::SLICE;
use super::release::ALL;
use crate::damage::{damage, walk_damaged};
use crate::fake::Fake;
use crate::{Mapping, Memory, PAGE, Pages, Part, Thread, Walk};

const GLOBALS: u64 = 0x5000_0000_0000;
const ROOT: u64 = 0x7000_0000_0000;
const TABLES: u64 = 0x7001_0000_0000;
const ARENA: u64 = 0x7100_0000_0000;
const LARGE: u64 = 0x7200_0000_0000;
const SLICES: u64 = 64;
const META: u64 = ARENA + 0x4000;
const FREE: u64 = ARENA + 0x1000;
const OWNER: u64 = ARENA + 0x8000;
const PROCESS: u64 = ARENA + 0x9000;
const MAIN: u64 = ARENA + 0xa000;

/// An arena with three pages, a slice with structures, and a block outside:
/// 32 blocks of 2048 bytes, 20 made, of which 5 are free and 2 freed by others; 64 of 1008, all in use; one empty page; 1 MiB.
fn heap() -> Fake {
    let mut fake = Fake::default();
    fake.map(GLOBALS, 0x1000, true, 7, "/bin/program");
    fake.map(ROOT, (2 << 20) + SLICE, true, 0, "");
    fake.map(TABLES, 2 * SLICE, true, 0, "");
    fake.map(ARENA, SLICES * SLICE, true, 0, "");
    fake.map(LARGE, 17 * SLICE, true, 0, "");
    fake.put(GLOBALS + 0x100, &[ROOT]);
    fake.put(ROOT, &[ROOT + (2 << 20)]);

    fake.put(ARENA + 40, &[SLICES, 1]);
    // `slices_free` ends with its one chunk; slices 5 and later are free.
    fake.put(ARENA + 104, &[FREE, FREE + 0x100]);
    fake.put(ARENA + 144, &[FREE + 0x200]);
    fake.put(FREE, &[1]);
    fake.put(FREE + 0x100 - 64, &[u64::MAX << 5]);
    fake.put(FREE + 0x200, &[1]);
    fake.put(FREE + 0x200 + 128, &[0b1110]);

    fake.put(OWNER, &[OWNER + 0x100]);
    fake.put(OWNER + 0x100 + 24, &[PROCESS]);
    fake.put(ARENA + 24, &[PROCESS]);
    fake.put(PROCESS + 24, &[1, ARENA]);
    // The main heap has one part, that of the thread, which owns all four pages.
    fake.put(PROCESS + 1368, &[MAIN]);
    fake.put(MAIN + 56, &[OWNER]);
    fake.put(OWNER + 176, &[4]);
    for (slice, block, used, capacity, reserved) in
        [(1, 2048, 15, 20, 32), (2, 1008, 65, 65, 65), (3, 64, 0, 1024, 1024)]
    {
        let start = ARENA + slice * SLICE;
        let counts = used | capacity << 16 | reserved << 32;
        let page = META + slice * 120;
        fake.put(page, &[0x1234, 0, counts, 0, 1, block, start]);
        fake.put(page + 56, &[OWNER]);
        fake.put(page + 96, &[ARENA, slice | 1 << 32, 7]);
        enter(&mut fake, start, page);
        fake.touch(start, start + block * capacity);
    }
    let first = ARENA + SLICE;
    list(&mut fake, META + 120 + 8, first, &[3, 1, 2], 0);
    list(&mut fake, META + 120 + 24, first, &[9, 8], 0);
    list(&mut fake, META + 120 + 32, first, &[10, 12], 1);
    let empty: Vec<u64> = (0..1024).collect();
    chain(&mut fake, META + 3 * 120 + 8, ARENA + 3 * SLICE, 64, &empty);
    fake.touch(ARENA + 4 * SLICE, ARENA + 6 * SLICE);

    fake.put(LARGE, &[0x1234, 0, 1 | 1 << 16 | 1 << 32, 0, 1, 1 << 20, LARGE + PAGE]);
    fake.put(LARGE + 56, &[OWNER]);
    fake.put(LARGE + 96, &[LARGE, 17 * SLICE, 4]);
    enter(&mut fake, LARGE, LARGE);
    fake.touch(LARGE, LARGE + PAGE + (1 << 20));
    fake.done()
}

fn enter(fake: &mut Fake, at: u64, page: u64) {
    let (slice, table) = (at / SLICE, if at < LARGE { TABLES } else { TABLES + SLICE });
    fake.put(ROOT + 8 * (slice >> 13), &[table]);
    fake.put(table + 8 * (slice & 0x1fff), &[page]);
}

fn list(fake: &mut Fake, head: u64, start: u64, blocks: &[u64], flag: u64) {
    chain(fake, head, start, 2048, blocks);
    let first = fake.word(head).unwrap();
    fake.put(head, &[first | flag]);
}

fn chain(fake: &mut Fake, head: u64, start: u64, block: u64, blocks: &[u64]) {
    let mut from = head;
    for index in blocks {
        fake.put(from, &[start + index * block]);
        from = start + index * block;
    }
    fake.put(from, &[0]);
}

fn walk(fake: &Fake) -> Walk {
    (WALKER.walk)(fake).expect("a heap").expect("a walk")
}

const LIVE: u64 = 13 * 2048 + 65 * 1008 + (1 << 20);

#[test]
fn every_block_is_live_or_free_or_freed_by_another_thread() {
    let walk = walk(&heap());
    assert_eq!((walk.live, walk.cached, walk.blocks), (LIVE, 2 * 2048, 13 + 65 + 1));
    assert_eq!((walk.breaks, walk.skipped, walk.layout.astray()), (0, 0, 0));
    assert_eq!((walk.checks[0].wanted, walk.checks[0].found), (3, 3));
    assert_eq!((walk.checks[1].wanted, walk.checks[1].found), (4, 4));
    // The empty page, and the slice that is free and resident.
    assert_eq!((walk.forecasts[0].bytes, walk.forecasts[0].at_most), (2 * SLICE, true));
}

#[test]
fn the_parts_add_up_to_the_resident_pages() {
    let fake = heap();
    let walk = walk(&fake);
    let parts = walk.layout.parts(fake.pages(), walk.arenas.len() as u32);
    let resident = |from, bytes| fake.pages().resident(from, from + bytes);
    assert_eq!(parts[0].of(Part::Live), 13 * 2048 + 65 * 1008);
    assert_eq!(parts[0].of(Part::Cached), 2 * 2048);
    assert_eq!(parts[0].sum(), resident(ARENA, SLICES * SLICE));
    assert_eq!(parts[1].of(Part::Live), 1 << 20);
    assert_eq!(parts[2].of(Part::Structures), resident(ROOT, 3 << 20) + resident(TABLES, 2 * SLICE));
}

#[test]
fn the_counts_are_read_together_with_the_lists() {
    let page = super::page::Page::parse(META + 120, &bytes(&heap(), META + 120), &ALL[0]).unwrap();
    let mut fake = heap();
    list(&mut fake, META + 120 + 8, ARENA + SLICE, &[3, 1, 2, 4], 0);
    fake.put(META + 120 + 16, &[14 | 20 << 16 | 32 << 32]);
    let again = super::fill::again(&fake, &page, &ALL[0]).unwrap();
    assert_eq!((page.used, again.used), (15, 14));
    fake.put(META + 120 + 40, &[4096]);
    assert!(super::fill::again(&fake, &page, &ALL[0]).is_none());
}

/// A heap that is another one after so many reads.
struct Changing {
    before: Fake,
    after: Fake,
    reads: Cell<u64>,
    change: u64,
}

impl Memory for Changing {
    fn mappings(&self) -> &[Mapping] {
        self.before.mappings()
    }

    fn threads(&self) -> &[Thread] {
        &[]
    }

    fn pages(&self) -> &Pages {
        self.before.pages()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let reads = self.reads.get();
        self.reads.set(reads + 1);
        if reads < self.change { self.before.read(at, into) } else { self.after.read(at, into) }
    }
}

#[test]
fn blocks_that_move_while_they_are_counted_are_right_within_two_percent_or_not_known() {
    // 13 blocks of 2048 bytes are freed, and 416 of 64 are allocated: as much memory in another page, 2 % of what is live.
    let mut after = heap();
    list(&mut after, META + 120 + 8, ARENA + SLICE, &[3, 1, 2, 0, 4, 5, 6, 7, 11, 13, 14, 15, 16, 17, 18, 19], 0);
    after.put(META + 120 + 16, &[2 | 20 << 16 | 32 << 32]);
    let free: Vec<u64> = (416..1024).collect();
    chain(&mut after, META + 3 * 120 + 8, ARENA + 3 * SLICE, 64, &free);
    after.put(META + 3 * 120 + 16, &[416 | 1024 << 16 | 1024 << 32]);
    assert_eq!((walk(&heap()).live, walk(&after).live, walk(&after).breaks), (LIVE, LIVE, 0));
    let mut memory = Changing { before: heap(), after, reads: Cell::new(0), change: u64::MAX };
    (WALKER.walk)(&memory).expect("a heap").expect("a walk");
    let all = memory.reads.get();
    let mut off = 0;
    for change in 0..=all {
        (memory.change, memory.reads) = (change, Cell::new(0));
        let walk = (WALKER.walk)(&memory).expect("a heap").expect("a walk");
        let is_right = walk.live.abs_diff(LIVE) <= LIVE / 50;
        assert!(is_right || walk.trust(1 << 30).is_err(), "after {change} of {all} reads: {} live", walk.live);
        off += u64::from(!is_right && walk.breaks == 0);
    }
    assert!(off > 0, "at no read of {all} was a block missed or counted twice without a break");
}

fn bytes(fake: &Fake, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; ALL[0].page.bytes];
    assert!(fake.read(at, &mut bytes));
    bytes
}

#[test]
fn a_list_that_goes_round_is_noticed() {
    let mut fake = heap();
    fake.put(ARENA + SLICE + 2 * 2048, &[ARENA + SLICE + 3 * 2048]);
    let walk = walk(&fake);
    assert_eq!((walk.breaks, walk.skipped), (1, 2048));
}

#[test]
fn a_page_that_the_map_has_lost_is_noticed() {
    let mut fake = heap();
    fake.put(TABLES + 8 * ((ARENA / SLICE + 2) & 0x1fff), &[0]);
    let walk = walk(&fake);
    assert_eq!((walk.breaks, walk.skipped), (1, SLICE));
    assert!(walk.trust(1 << 30).unwrap_err().contains("the allocator counts 3, the walk found 2"));
}

#[test]
fn a_page_from_the_kernel_that_the_map_has_lost_is_noticed() {
    let mut fake = heap();
    // Its entry is the first one of its table, which begins a page later by now.
    fake.put(ROOT + 8 * ((LARGE / SLICE) >> 13), &[TABLES + SLICE + PAGE]);
    let walk = walk(&fake);
    assert_eq!((walk.breaks, walk.live), (0, LIVE - (1 << 20)));
    assert!(walk.trust(1 << 30).unwrap_err().contains("the allocator counts 4, the walk found 3"));
}

#[test]
fn an_arena_of_another_layout_is_refused() {
    let mut fake = heap();
    fake.put(FREE, &[0]);
    let error = (WALKER.walk)(&fake).unwrap().unwrap_err().to_string();
    assert_eq!(
        error,
        "mimalloc: heap not divided: layout unknown: wanted that of the releases 2.0.6 to 2.3, 3.1 and 3.3; none of its arenas can be read"
    );
}

#[test]
fn a_process_without_it_has_no_walk_and_one_with_its_library_says_so() {
    let mut fake = Fake::default();
    fake.map(GLOBALS, 0x1000, true, 7, "/bin/program");
    assert!((WALKER.walk)(&fake.done()).is_none());
    let mut fake = Fake::default();
    fake.map(GLOBALS, 0x1000, false, 7, "/usr/lib/libmimalloc.so.2.0");
    let error = (WALKER.walk)(&fake.done()).unwrap().unwrap_err().to_string();
    assert!(error.ends_with("found /usr/lib/libmimalloc.so.2.0, without a build-id"), "{error}");
}

#[test]
fn fuzz_damaged_heaps_are_refused_or_warned_about() {
    holds(1000, 2, damage(), |damage| walk_damaged(&WALKER, heap(), damage));
}
