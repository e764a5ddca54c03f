//! Heaps that a test writes, and what the walker makes of them.

use std::cell::Cell;

use allocanary_testing::fuzz::holds;

use super::WALKER;
use super::page::SLICE;
use super::release::{ALL, BlockStart, MimallocRelease};
use crate::damage::{damage, walk_damaged};
use crate::fake::FakeMemory;
use crate::{Machine, Mapping, Memory, PAGE, PageStates, Part, ThreadId, Walk};

const GLOBALS: u64 = 0x5000_0000_0000;
pub(super) const ROOT: u64 = 0x7000_0000_0000;
const TABLES: u64 = 0x7001_0000_0000;
pub(super) const ARENA: u64 = 0x7100_0000_0000;
const LARGE: u64 = 0x7200_0000_0000;
const SLICES: u64 = 64;
pub(super) const META: u64 = ARENA + 0x4000;
const FREE: u64 = ARENA + 0x1000;
const OWNER: u64 = ARENA + 0x8000;
const PROCESS: u64 = ARENA + 0x9000;
const MAIN: u64 = ARENA + 0xa000;

/// An arena with three pages, a slice with structures, and a block outside:
/// 32 blocks of 2048 bytes, 20 made, of which 5 are free and 2 freed by others; 64 of 1008, all in use; one empty page; 1 MiB.
pub(super) fn heap() -> FakeMemory {
    heap_of(&ALL[0])
}

/// The same heap as a release has it.
pub(super) fn heap_of(release: &MimallocRelease) -> FakeMemory {
    let (arena, process) = (&release.arena, &release.process);
    let mut fake = FakeMemory::default();
    fake.map(GLOBALS, 0x1000, true, 7, "/bin/program");
    fake.map(ROOT, (2 << 20) + SLICE, true, 0, "");
    fake.map(TABLES, 2 * SLICE, true, 0, "");
    fake.map(ARENA, SLICES * SLICE, true, 0, "");
    fake.map(LARGE, 17 * SLICE, true, 0, "");
    fake.put(GLOBALS + 0x100, &[ROOT]);
    // The root, or its head, which counts the entries.
    let root = ROOT + release.map_head;
    fake.put(ROOT, &[((2 << 20) - release.map_head) / 8]);
    fake.put(root, &[ROOT + (2 << 20)]);
    if let Some(base) = arena.base {
        fake.put(ARENA + base, &[ARENA]);
    }

    fake.put(ARENA + arena.slice_count, &[SLICES]);
    fake.put(ARENA + arena.info_slices, &[1]);
    // `slices_free` ends with its one chunk; slices 5 and later are free.
    fake.put(ARENA + arena.slices_free, &[FREE, FREE + 0x100]);
    fake.put(ARENA + arena.pages, &[FREE + 0x200]);
    fake.put(FREE, &[1]);
    fake.put(FREE + 0x100 - 64, &[u64::MAX << 5]);
    fake.put(FREE + 0x200, &[1]);
    fake.put(FREE + 0x200 + 128, &[0b1110]);

    fake.put(OWNER + release.owner.tld, &[OWNER + 0x100]);
    fake.put(OWNER + 0x100 + process.of_thread, &[PROCESS]);
    fake.put(ARENA + arena.subproc, &[PROCESS]);
    fake.put(PROCESS + process.arena_count, &[1, ARENA]);
    // The main heap has one part, that of the thread, which owns all four pages.
    if let Some(lists) = &release.owner.lists {
        fake.put(PROCESS + lists.heaps, &[MAIN]);
        fake.put(MAIN + lists.theaps, &[OWNER]);
    }
    fake.put(OWNER + release.owner.page_count, &[4]);
    for (slice, block, used, capacity, reserved) in
        [(1, 2048, 15, 20, 32), (2, 1008, 65, 65, 65), (3, 64, 0, 1024, 1024)]
    {
        let start = ARENA + slice * SLICE;
        let page = META + slice * 120;
        let memid = [ARENA, slice | 1 << 32, release.page.arena_kind.into()];
        put_page(&mut fake, release, page, [used, capacity, reserved], block, start, memid);
        enter(&mut fake, root, start, page);
        fake.touch(start, start + block * u64::from(capacity));
    }
    let first = ARENA + SLICE;
    let head = |field: usize| META + 120 + field as u64;
    list(&mut fake, head(release.page.free), first, &[3, 1, 2], 0);
    list(&mut fake, head(release.page.local_free), first, &[9, 8], 0);
    list(&mut fake, head(release.page.xthread_free), first, &[10, 12], 1);
    let empty: Vec<u64> = (0..1024).collect();
    chain(&mut fake, head(release.page.free) + 2 * 120, ARENA + 3 * SLICE, 64, &empty);
    fake.touch(ARENA + 4 * SLICE, ARENA + 6 * SLICE);

    put_page(&mut fake, release, LARGE, [1, 1, 1], 1 << 20, LARGE + PAGE, [LARGE, 17 * SLICE, 4]);
    enter(&mut fake, root, LARGE, LARGE);
    fake.touch(LARGE, LARGE + PAGE + (1 << 20));
    fake.done()
}

/// A page with these counts: used, capacity, reserved.
pub(super) fn put_page(
    fake: &mut FakeMemory,
    release: &MimallocRelease,
    at: u64,
    counts: [u16; 3],
    block: u64,
    start: u64,
    memid: [u64; 3],
) {
    let fields = &release.page;
    let mut put = |field: usize, words: &[u64]| fake.put(at + field as u64, words);
    put(fields.thread, &[0x1234]);
    put(fields.xthread_free, &[1]);
    put(fields.block_size, &[block]);
    put(fields.owner, &[OWNER]);
    put(fields.memid, &memid);
    match fields.start {
        BlockStart::Field(field) => put(field, &[start]),
        BlockStart::Distance { field, unit } => put(field, &[start.wrapping_sub(at) / unit]),
    }
    for (field, count) in [fields.used, fields.capacity, fields.reserved].into_iter().zip(counts) {
        fake.write(at + field as u64, &count.to_le_bytes());
    }
}

pub(super) fn enter(fake: &mut FakeMemory, root: u64, at: u64, page: u64) {
    let (slice, table) = (at / SLICE, if at < LARGE { TABLES } else { TABLES + SLICE });
    fake.put(root + 8 * (slice >> 13), &[table]);
    fake.put(table + 8 * (slice & 0x1fff), &[page]);
}

pub(super) fn list(fake: &mut FakeMemory, head: u64, start: u64, blocks: &[u64], flag: u64) {
    chain(fake, head, start, 2048, blocks);
    let first = fake.word(head).unwrap();
    fake.put(head, &[first | flag]);
}

pub(super) fn chain(fake: &mut FakeMemory, head: u64, start: u64, block: u64, blocks: &[u64]) {
    let mut from = head;
    for index in blocks {
        fake.put(from, &[start + index * block]);
        from = start + index * block;
    }
    fake.put(from, &[0]);
}

fn walk(fake: &FakeMemory) -> Walk {
    (WALKER.walk)(fake).pop().expect("a heap").expect("a walk")
}

pub(super) const LIVE: u64 = 13 * 2048 + 65 * 1008 + (1 << 20);

#[test]
fn each_release_is_known_by_its_own_distances() {
    for release in ALL {
        let walk = walk(&heap_of(release));
        assert_eq!((walk.version.as_str(), walk.live, walk.breaks), (release.name, LIVE, 0));
        assert!(walk.checks.iter().all(|check| check.wanted == check.found && check.wanted > 0), "{:?}", walk.checks);
    }
}

#[test]
fn a_page_without_blocks_for_the_null_pointer_is_no_break_and_elsewhere_it_is() {
    let entry = |slice: u64, block: u64| {
        let mut fake = heap();
        put_page(&mut fake, &ALL[0], META + 9 * 120, [0, 0, 0], block, 0, [0, 0, 2]);
        // The root's first entry is the table right behind the root.
        fake.put(ROOT + (2 << 20) + 8 * slice, &[META + 9 * 120]);
        walk(&fake.done()).breaks
    };
    assert_eq!((entry(0, 0), entry(0, 16), entry(1, 0)), (0, 1, 1));
}

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
    assert_eq!(parts[2].of(Part::Metadata), resident(ROOT, 3 << 20) + resident(TABLES, 2 * SLICE));
}

#[test]
fn the_counts_are_read_together_with_the_lists() {
    let page = super::page::MiPage::parse(META + 120, &bytes(&heap(), META + 120), &ALL[0]).unwrap();
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
    before: FakeMemory,
    after: FakeMemory,
    reads: Cell<u64>,
    change: u64,
}

impl Memory for Changing {
    fn machine(&self) -> Machine {
        self.before.machine()
    }

    fn mappings(&self) -> &[Mapping] {
        self.before.mappings()
    }

    fn threads(&self) -> &[ThreadId] {
        &[]
    }

    fn pages(&self) -> &PageStates {
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
    (WALKER.walk)(&memory).pop().expect("a heap").expect("a walk");
    let all = memory.reads.get();
    let mut off = 0;
    for change in 0..=all {
        (memory.change, memory.reads) = (change, Cell::new(0));
        let walk = (WALKER.walk)(&memory).pop().expect("a heap").expect("a walk");
        let is_right = walk.live.abs_diff(LIVE) <= LIVE / 50;
        assert!(is_right || walk.trust(1 << 30).is_err(), "after {change} of {all} reads: {} live", walk.live);
        off += u64::from(!is_right && walk.breaks == 0);
    }
    assert!(off > 0, "at no read of {all} was a block missed or counted twice without a break");
}

fn bytes(fake: &FakeMemory, at: u64) -> Vec<u8> {
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
    let error = (WALKER.walk)(&fake).pop().unwrap().unwrap_err().to_string();
    assert_eq!(
        error,
        "mimalloc: heap not analysed: layout unknown: wanted that of the releases 2.0.6 to 2.3, 3.0 to 3.4 and 3.6; none of its arenas can be read"
    );
}

#[test]
fn a_process_without_it_has_no_walk_and_one_with_its_library_says_so() {
    let mut fake = FakeMemory::default();
    fake.map(GLOBALS, 0x1000, true, 7, "/bin/program");
    assert!((WALKER.walk)(&fake.done()).is_empty());
    let mut fake = FakeMemory::default();
    fake.map(GLOBALS, 0x1000, false, 7, "/usr/lib/libmimalloc.so.2.0");
    let error = (WALKER.walk)(&fake.done()).pop().unwrap().unwrap_err().to_string();
    assert!(error.ends_with("found /usr/lib/libmimalloc.so.2.0, without a build-id"), "{error}");
}

#[test]
fn fuzz_damaged_heaps_are_refused_or_warned_about() {
    for release in ALL {
        holds(1000, 2, damage(), |damage| walk_damaged(&WALKER, heap_of(release), damage));
    }
}
