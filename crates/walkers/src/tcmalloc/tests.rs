//! Heaps that a test writes, and what the walker makes of them.

use allocanary_testing::fuzz::holds;

use super::WALKER;
use super::release::ALL;
use crate::damage::{damage, walk_damaged};
use crate::fake::FakeMemory;
use crate::{PAGE, Part, Walk};

/// A page of tcmalloc.
const OWN: u64 = 8192;
const GLOBALS: u64 = 0x5000_0000_0000;
const ROOT: u64 = GLOBALS + 0x2000;
const SIZES: u64 = GLOBALS + 0x18_0004;
const CENTRAL: u64 = GLOBALS + 0x19_0000;
const HEAP: u64 = 0x7100_0000_0000;
const LEAF: u64 = 0x7200_0000_0000;
const SPANS: u64 = LEAF + (4 << 20);
const CACHES: u64 = SPANS + 0x4_0000;

/// The classes of the test: tcmalloc has more.
const CLASSES: [u32; 5] = [8, 16, 1024, 8192, 256 << 10];

/// The spans: first page, pages, class, taken blocks, where it is listed. The first two have blocks of 1024 and of 8192 bytes.
const ALL_SPANS: [(u64, u64, u64, u64, u64); 6] =
    [(0, 1, 3, 6, 0), (1, 4, 4, 4, 0), (5, 16, 0, 0, 0), (21, 2, 0, 0, 1), (23, 3, 0, 0, 2), (26, 32, 5, 1, 0)];

/// Two thread caches, of which a global variable points to the first one. Of the span of 1024, two blocks are free, and one is cached by each
/// thread; one of 8192 is in a central list.
fn heap() -> FakeMemory {
    let mut fake = FakeMemory::default();
    fake.map(GLOBALS, 0x1000, true, 7, "/lib/libtcmalloc.so.4");
    fake.map(GLOBALS + 0x1000, 2 << 20, true, 0, "");
    fake.map(HEAP, 64 * OWN, true, 0, "");
    fake.map(LEAF, 8 << 20, true, 0, "");
    let first = HEAP / OWN;
    fake.put(ROOT + 8 * (first >> 18), &[LEAF]);
    for (number, (start, pages, class, taken, listed)) in (0..).zip(ALL_SPANS) {
        let at = SPANS + 48 * number;
        fake.put(at, &[first + start, pages, 0, 0, 0, taken | class << 16 | listed << 24]);
        for page in (0..pages).filter(|page| class > 0 || *page == 0 || *page == pages - 1) {
            fake.put(LEAF + 8 * ((first + start + page) & 0x3ffff), &[at]);
        }
        fake.touch(HEAP + start * OWN, HEAP + (start + pages) * OWN);
    }
    // An entry within a free span is old.
    fake.put(LEAF + 8 * ((first + 24) & 0x3ffff), &[SPANS + 48]);
    fake.put(SPANS + 32, &[HEAP + 2 * 1024]);
    fake.put(HEAP + 2 * 1024, &[HEAP + 7 * 1024]);
    fake.put(HEAP + 7 * 1024, &[0]);

    fake.write(SIZES - 4, &[0; 8]);
    for (class, size) in (1..).zip(CLASSES) {
        fake.write(SIZES + 4 * class, &size.to_le_bytes());
    }
    fake.put((SIZES + 512).next_multiple_of(8), &[0, 1, 1, 1, 4, 32]);
    for class in 1..=5 {
        fake.put(CENTRAL + 1216 * class + 8, &[class]);
    }
    fake.put(CENTRAL + 1216 * 3 + 120, &[2]);
    fake.put(CENTRAL + 1216 * 4 + 128, &[HEAP + 2 * OWN, HEAP + 2 * OWN]);
    fake.put(CENTRAL + 1216 * 4 + 1152, &[1]);
    // The link of the last block of a chain means nothing.
    fake.put(HEAP + 2 * OWN, &[0x1234]);
    fake.put(ROOT + ALL[0].stats, &[58 * OWN, 2 * OWN, 3 * OWN]);

    fake.put(GLOBALS + 0x100, &[CACHES]);
    for (cache, block) in [(CACHES, 0), (CACHES + 0x2000, 1)] {
        for (class, size) in (1..).zip(CLASSES) {
            fake.put(cache + 32 * class + 24, &[size.into()]);
        }
        fake.put(cache + 32 * 3, &[HEAP + block * 1024, 1]);
        fake.put(HEAP + block * 1024, &[0]);
    }
    fake.put(CACHES + 32 * 128 + 64, &[CACHES + 0x2000]);
    fake.done()
}

/// Four blocks of 1024, three of 8192, 16 pages, and 256 KiB.
const LIVE: u64 = 4 * 1024 + 3 * 8192 + 16 * OWN + (256 << 10);

fn walk(fake: &FakeMemory) -> Walk {
    (WALKER.walk)(fake).pop().expect("a heap").expect("a walk")
}

#[test]
fn every_block_is_live_or_free_or_cached() {
    let walk = walk(&heap());
    assert_eq!((walk.live, walk.cached, walk.blocks), (LIVE, 2 * 1024 + 8192, 4 + 3 + 1 + 1));
    assert_eq!((walk.breaks, walk.skipped, walk.layout.astray()), (0, 0, 0));
    let checks: Vec<_> = walk.checks.iter().map(|check| (check.wanted, check.found)).collect();
    assert_eq!(checks, [(58 * OWN, 58 * OWN), (2 * OWN, 2 * OWN), (3 * OWN, 3 * OWN), (2, 2)]);
    assert_eq!((walk.forecasts[0].bytes, walk.forecasts[0].at_most), (2 * OWN, false));
}

#[test]
fn the_parts_add_up_to_the_resident_pages() {
    let fake = heap();
    let walk = walk(&fake);
    let parts = walk.layout.parts(&fake.pages, walk.arenas.len() as u32);
    assert_eq!(parts[0].of(Part::Live), LIVE);
    assert_eq!(parts[0].of(Part::Cached), 2 * 1024 + 8192);
    assert_eq!(parts[0].of(Part::FreePages), 5 * OWN);
    assert_eq!(parts[0].sum(), 58 * OWN);
    // The leaf, the spans, two pages of the first cache, and one of the second.
    assert_eq!((parts[1].of(Part::Metadata), parts[1].sum()), (5 * PAGE, 5 * PAGE));
}

#[test]
fn a_list_of_another_length_is_noticed() {
    let mut fake = heap();
    fake.put(HEAP + 2 * 1024, &[0]);
    assert_eq!((walk(&fake).breaks, walk(&fake).skipped), (1, 1024));
    let mut fake = heap();
    fake.put(CACHES + 32 * 3, &[HEAP, 3]);
    assert_eq!((walk(&fake).breaks, walk(&fake).skipped), (1, 2 * 1024));
}

#[test]
fn a_span_that_the_map_has_lost_is_noticed() {
    let mut fake = heap();
    fake.put(LEAF + 8 * ((HEAP / OWN + 5) & 0x3ffff), &[0]);
    fake.put(LEAF + 8 * ((HEAP / OWN + 20) & 0x3ffff), &[0]);
    assert!(walk(&fake).trust(1 << 30).unwrap_err().starts_with("bytes of all spans: the allocator counts 475136"));
}

#[test]
fn a_heap_without_central_lists_or_caches_is_refused() {
    let mut fake = heap();
    fake.put(CENTRAL + 1216 * 2 + 8, &[7]);
    let error = (WALKER.walk)(&fake).pop().unwrap().unwrap_err().to_string();
    assert!(error.ends_with("its central lists were not found"), "{error}");
    let mut fake = heap();
    fake.put(CACHES + 32 + 24, &[9]);
    let error = (WALKER.walk)(&fake).pop().unwrap().unwrap_err().to_string();
    assert!(error.ends_with("no thread cache was found"), "{error}");
}

#[test]
fn without_its_classes_it_is_another_allocator_and_its_library_is_named() {
    let mut fake = heap();
    fake.put(SIZES + 4, &[9]);
    let error = (WALKER.walk)(&fake).pop().unwrap().unwrap_err().to_string();
    assert!(error.contains("found /lib/libtcmalloc.so.4"), "{error}");
}

#[test]
fn fuzz_damaged_heaps_are_refused_or_warned_about() {
    holds(1000, 2, damage(), |damage| walk_damaged(&WALKER, heap(), damage));
}
