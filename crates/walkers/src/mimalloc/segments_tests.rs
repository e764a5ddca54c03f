//! Heaps of mimalloc 2 that a test writes, by each release, and what the walker makes of them.

use allocanary_testing::fuzz::holds;
use proptest::prelude::*;

use super::WALKER;
use super::older::{ALL, Number, Older, OlderStart};
use super::page::SLICE;
use crate::damage::{damage, walk_damaged};
use crate::fake::FakeMemory;
use crate::{Memory, Part, Walk};

const SEGMENT: u64 = 0x7100_0000_0000;
const LARGE: u64 = 0x7200_0000_0000;
const HEAP: u64 = 0x7300_0000_0000;
const THREAD: u64 = HEAP + 0x2000;
const NUMBER: u64 = 0x1234_5678_9abc_def0;

/// Slices of the segment of the large block, which has all but its first: where it shall be longer than a segment can be otherwise, and where it
/// shall not be so large that damage of all the others is little beside it.
const LONG: u64 = 2000;
pub(super) const SHORT: u64 = 17;

/// A page: its first slice, how many, the bytes of a block, and used, made and possible blocks.
type Shape = (u64, u64, u64, u64, u64);

/// 4 blocks of 2048 bytes of 12 made; all of 1 KiB taken; an empty page; and behind it free slices.
const PAGES: [Shape; 3] = [(1, 1, 2048, 4 + 2 + 1, 12), (2, 1, 1280, 51, 51), (3, 8, 8192, 0, 64)];

fn place(release: &Older, segment: u64, slice: u64) -> u64 {
    segment + release.segment.first as u64 + release.page.bytes as u64 * slice
}

fn put(fake: &mut FakeMemory, at: u64, number: &Number, value: u64) {
    fake.write(at + number.at as u64, &value.to_le_bytes()[..number.bytes]);
}

/// A segment with its own slice, and the free slices behind its last page.
fn segment(fake: &mut FakeMemory, release: &Older, at: u64, slices: u64, used: u64, kind: u64) {
    let fields = &release.segment;
    for (field, value) in [
        (fields.used, used),
        (fields.cookie, at ^ NUMBER),
        (fields.slices, slices),
        (fields.own, 1),
        (fields.kind, kind),
        (fields.entries, slices.min(release.segment.most)),
    ] {
        fake.put(at + field as u64, &[value]);
    }
    put(fake, place(release, at, 0), &Number { at: release.page.count, bytes: 4 }, 1);
}

fn page(fake: &mut FakeMemory, release: &Older, segment: u64, (slice, slices, block, used, made): Shape) {
    let (fields, at, from) = (&release.page, place(release, segment, slice), segment + slice * SLICE);
    // Blocks of these sizes begin where the slices do, in all releases.
    let start = from;
    put(fake, at, &Number { at: fields.count, bytes: 4 }, slices);
    put(fake, at, &Number { at: fields.capacity, bytes: 2 }, made);
    put(fake, at, &Number { at: fields.reserved, bytes: 2 }, slices * SLICE / block);
    put(fake, at, &fields.used, used);
    put(fake, at, &fields.block_size, block);
    if let OlderStart::Field(field) = fields.start {
        fake.put(at + field as u64, &[start]);
    }
    fake.put(at + fields.heap as u64, &[HEAP]);
    fake.touch(start, start + (block * made).min(16 * SLICE));
}

fn list(fake: &mut FakeMemory, head: u64, blocks: &[u64], flag: u64) {
    let mut from = head;
    for (number, block) in blocks.iter().enumerate() {
        fake.put(from, &[block | if number == 0 { flag } else { 0 }]);
        from = *block;
    }
    fake.put(from, &[0]);
}

pub(super) fn heap(release: &Older, large: u64) -> FakeMemory {
    let mut fake = FakeMemory::default();
    let most = release.segment.most;
    fake.map(SEGMENT, most * SLICE, true, 0, "");
    fake.map(LARGE, large * SLICE, true, 0, "");
    fake.map(HEAP, 0x4000, true, 0, "");
    segment(&mut fake, release, SEGMENT, most, 3, 0);
    for shape in PAGES {
        page(&mut fake, release, SEGMENT, shape);
    }
    put(&mut fake, place(release, SEGMENT, 11), &Number { at: release.page.count, bytes: 4 }, most - 11);
    fake.touch(SEGMENT + 11 * SLICE, SEGMENT + 12 * SLICE);
    let (first, start) = (place(release, SEGMENT, 1), SEGMENT + SLICE);
    list(&mut fake, first + release.page.free as u64, &[start, start + 2048], 0);
    list(&mut fake, first + release.page.local_free as u64, &[start + 2 * 2048, start + 3 * 2048, start + 4 * 2048], 0);
    list(&mut fake, first + release.page.xthread_free as u64, &[start + 5 * 2048, start + 6 * 2048], 1);
    list(&mut fake, HEAP + release.heap.delayed, &[start + 7 * 2048], 0);
    let empty: Vec<u64> = (0..64).map(|block| SEGMENT + 3 * SLICE + block * 8192).collect();
    list(&mut fake, place(release, SEGMENT, 3) + release.page.free as u64, &empty, 0);

    segment(&mut fake, release, LARGE, large, 1, 1);
    page(&mut fake, release, LARGE, (1, large - 1, (large - 1) * SLICE, 1, 1));
    fake.put(HEAP, &[THREAD]);
    fake.put(HEAP + release.heap.page_count, &[4]);
    fake.put(THREAD + release.heap.of_thread, &[HEAP]);
    fake.done()
}

/// Bytes that live, but for the large block.
pub(super) const LIVE: u64 = 4 * 2048 + 51 * 1280;

fn walk(fake: &FakeMemory) -> Walk {
    (WALKER.walk)(fake).pop().expect("a heap").expect("a walk")
}

#[test]
fn every_block_is_live_or_free_or_freed_by_another_thread_in_each_release() {
    for (release, large) in ALL.iter().flat_map(|release| [(release, SHORT), (release, LONG)]) {
        let walk = walk(&heap(release, large));
        let live = LIVE + (large - 1) * SLICE;
        assert_eq!((walk.live, walk.cached, walk.blocks), (live, 3 * 2048, 4 + 51 + 1), "{}", release.name);
        assert_eq!((walk.breaks, walk.skipped, walk.layout.astray()), (0, 0, 0), "{}", release.name);
        assert_eq!((walk.checks[0].wanted, walk.checks[0].found), (4, 4), "{}", release.name);
    }
}

#[test]
fn the_parts_add_up_to_the_resident_pages() {
    let fake = heap(&ALL[0], SHORT);
    let walk = walk(&fake);
    let parts = walk.layout.parts(fake.pages(), walk.arenas.len() as u32);
    assert_eq!((parts[0].of(Part::Live), parts[0].of(Part::Cached)), (LIVE + (SHORT - 1) * SLICE, 3 * 2048));
    let resident = |from, slices| fake.pages().resident(from, from + slices * SLICE);
    assert_eq!(parts[0].sum(), resident(SEGMENT, 512) + resident(LARGE, SHORT));
    // The empty page, and a slice that is free and resident.
    assert_eq!(walk.forecasts[0].bytes, resident(SEGMENT + 3 * SLICE, 8) + SLICE);
}

#[test]
fn a_segment_with_another_cookie_is_none() {
    let mut fake = heap(&ALL[0], SHORT);
    fake.put(LARGE + ALL[0].segment.cookie as u64, &[7]);
    assert!(walk(&fake).trust(1 << 30).unwrap_err().contains("the allocator counts 4, the walk found"));
}

#[test]
fn a_segment_whose_slices_do_not_lead_to_its_end_is_none() {
    let mut fake = heap(&ALL[0], SHORT);
    put(&mut fake, place(&ALL[0], SEGMENT, 11), &Number { at: 0, bytes: 4 }, 500);
    let walk = walk(&fake);
    assert_eq!(walk.live, (SHORT - 1) * SLICE);
    assert!(walk.trust(1 << 30).unwrap_err().contains("the allocator counts 4, the walk found 1"));
}

/// Each bit of the sizes of a block that has a page to itself: 8 MiB more were taken for right, because its page had room for them.
#[test]
fn a_block_that_has_a_page_to_itself_is_as_large_as_the_page() {
    for release in ALL {
        let size = place(release, LARGE, 1) + release.page.block_size.at as u64;
        // Smaller damage of the least of them is not seen.
        for bit in release.page.slack[1].ilog2()..32 {
            let mut fake = heap(release, LONG);
            let found = fake.word(size).expect("it was written") ^ 1 << bit;
            fake.put(size, &[found]);
            let fake = fake.done();
            assert!(walk(&fake).breaks > 0, "{}: bit {bit}", release.name);
        }
    }
}

#[test]
fn fuzz_damaged_heaps_are_refused_or_warned_about() {
    let release = (0..ALL.len()).prop_map(|at| &ALL[at]);
    holds(1000, 2, (release, damage()), |(release, damage)| walk_damaged(&WALKER, heap(release, SHORT), damage));
}
