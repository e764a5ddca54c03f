//! Heaps that a test writes, in both shapes of the tree, and what the walker makes of them.

use allocanary_testing::fuzz::holds;
use proptest::prelude::*;

use super::WALKER;
use super::extents::Extents;
use super::release::ALL;
use crate::damage::{damage, walk_damaged};
use crate::fake::FakeMemory;
use crate::{PAGE, Part, ThreadId, Walk};

const GLOBALS: u64 = 0x5000_0000_0000;
const EMAP: u64 = GLOBALS + 0x2000;
const ROOT: u64 = EMAP + 0x78;
const CODE: u64 = 0x4fff_0000_0000;
const STRUCTURES: u64 = 0x7000_0000_0000;
const ARENA: u64 = STRUCTURES + 0x1000;
const NODE: u64 = STRUCTURES + (2 << 20);
const LEAF: u64 = STRUCTURES + (4 << 20);
/// The leaf of the addresses before [`HEAP`], which begins a leaf in both shapes.
const LEAF_BEFORE: u64 = STRUCTURES + (6 << 20);
const EDATA: u64 = STRUCTURES + (8 << 20);
const HEAP: u64 = 0x7100_0000_0000;
const TLS: u64 = 0x7200_0000_0000;

#[derive(Clone, Copy, Debug)]
enum Shape {
    Two,
    Three,
    /// Two levels, and all structures of 5.2.
    Older,
}

/// An extent: pages, state, class, whether it is a slab, free regions from the first one on.
type Extent = (u64, u64, u8, bool, u64);

/// 64 regions of 64 bytes, 40 of them free; 8 of 2560 bytes in five pages, all in use; 32 KiB and a page; free pages.
const EXTENTS: [Extent; 4] = [(1, 0, 4, true, 40), (5, 0, 25, true, 0), (9, 0, 40, false, 0), (6, 1, 232, false, 0)];

fn heap(shape: Shape, cached: u64) -> FakeMemory {
    heap_at(shape, cached, HEAP)
}

/// A heap that begins at an address not far from [`HEAP`].
fn heap_at(shape: Shape, cached: u64, heap: u64) -> FakeMemory {
    heap_with(shape, cached, heap, TLS + 0x1000)
}

/// The same with the stacks of the thread cache at an address.
fn heap_with(shape: Shape, cached: u64, heap: u64, stacks: u64) -> FakeMemory {
    let mut fake = FakeMemory::default();
    fake.map(CODE, 0x1000, false, 7, "/lib/code");
    fake.map(GLOBALS, 0x1000, true, 7, "/lib/code");
    fake.map(GLOBALS + 0x1000, 3 << 20, true, 0, "");
    fake.map(STRUCTURES, 10 << 20, true, 0, "");
    fake.map(HEAP - (1 << 20), 2 << 20, true, 0, "");
    fake.map(TLS, 0x10000, true, 0, "");
    fake.put(STRUCTURES, &[10 << 20, 0, 0, STRUCTURES + (9 << 20)]);
    fake.put(EMAP, &[STRUCTURES + 0xc0]);
    // Other variables point to a leaf as well.
    fake.put(GLOBALS + 0x1100, &[ARENA, LEAF, NODE]);

    let (mut at, mut active) = (heap, 0);
    for (index, (pages, state, class, slab, free)) in (0..).zip(EXTENTS) {
        let edata = EDATA + 128 * index;
        active += if state == 0 { pages } else { 0 };
        let bits = match shape {
            Shape::Older => u64::from(slab) << 12 | state << 16 | u64::from(class) << 18 | free << 26,
            _ => u64::from(slab) << 12 | state << 17 | u64::from(class) << 20 | free << 28,
        };
        // A large block is moved within its first page.
        let moved = if slab || state != 0 { 0 } else { 0x440 };
        fake.put(edata, &[bits, at + moved, pages * PAGE]);
        fake.put(edata + 64, &[(1_u64 << free) - 1]);
        for page in (0..pages).filter(|page| slab || *page == 0 || *page == pages - 1) {
            entry(&mut fake, shape, (at / PAGE + page, edata, state, class, slab));
        }
        fake.touch(at, at + pages * PAGE);
        at += pages * PAGE;
    }

    fake.threads = vec![ThreadId { tid: 1, pointer: Some(TLS + 0xf000) }, ThreadId { tid: 2, pointer: None }];
    fake.put(ARENA, &[3]);
    if matches!(shape, Shape::Older) {
        fake.put(ARENA + 10344, &[active]);
        fake.put(ARENA + 29480, &[STRUCTURES + 0xc0]);
        fake.put(STRUCTURES + 0xc0, &[0, GLOBALS + 0x10]);
        older_cache(&mut fake, heap, cached, stacks);
        return fake.done();
    }
    let shard = ARENA + 0x40;
    fake.put(shard, &[GLOBALS + 0x1200, active, 1, CODE + 8, CODE + 16]);
    fake.put(shard + 0x800, &[EMAP, STRUCTURES + 0xc0, 0, 0, STRUCTURES + 0xc0]);

    for class in 0..40 {
        let (full, empty) = (stacks + class * 0x40, stacks + (class + 1) * 0x40);
        let head = empty - if class == 4 { 8 * cached } else { 0 };
        let low = (full & 0xffff) << 16 | (empty & 0xffff) << 32;
        fake.put(TLS + 0x8000 + 24 * class, &[head, 0, low | full & 0xffff]);
        for item in 0..if class == 4 { cached } else { 0 } {
            // The last regions of the first slab.
            fake.put(head + 8 * item, &[heap + 64 * (63 - item)]);
        }
    }
    fake.done()
}

/// A thread cache of 5.2: 36 records for small blocks, and two for large ones.
fn older_cache(fake: &mut FakeMemory, heap: u64, cached: u64, stacks: u64) {
    for class in 0..38 {
        let count = if class == 4 { cached } else { 0 };
        let (records, end) = (if class < 36 { TLS + 0x8000 } else { TLS + 0x8000 + 0x80 }, stacks + (class + 1) * 0x40);
        fake.put(records + 24 * class, &[count << 32, 0, end]);
        for item in 0..count {
            // The last regions of the first slab.
            fake.put(end - 8 * (item + 1), &[heap + 64 * (63 - item)]);
        }
    }
    fake.put(TLS + 0x8000 + 24 * 36 + 0x20, &[TLS + 0x8000, TLS + 0x8000 + 24 * 36 + 0x80]);
}

fn entry(fake: &mut FakeMemory, shape: Shape, (page, edata, state, class, slab): (u64, u64, u64, u8, bool)) {
    let low = u64::from(slab) | state << 2;
    let leaf = if page < HEAP / PAGE { LEAF_BEFORE } else { LEAF };
    match shape {
        Shape::Two | Shape::Older => {
            let low = if matches!(shape, Shape::Older) { slab.into() } else { low };
            fake.put(ROOT + 8 * (page >> 18), &[leaf]);
            fake.put(leaf + 8 * (page & 0x3ffff), &[u64::from(class) << 48 | edata | low]);
        }
        Shape::Three => {
            fake.put(ROOT + 8 * (page >> 30), &[NODE]);
            fake.put(NODE + 8 * (page >> 15 & 0x7fff), &[leaf]);
            fake.put(leaf + 16 * (page & 0x7fff), &[edata, u64::from(class) << 5 | low]);
        }
    }
}

fn walk(fake: &FakeMemory) -> Walk {
    (WALKER.walk)(fake).pop().expect("a heap").expect("a walk")
}

/// The regions in use, without those that are cached, and the large block.
const LIVE: u64 = 24 * 64 + 8 * 2560 + 8 * PAGE;

#[test]
fn every_shape_is_found_and_every_byte_is_counted() {
    for shape in [Shape::Two, Shape::Three, Shape::Older] {
        let fake = heap(shape, 5);
        let walk = walk(&fake);
        assert_eq!((walk.live, walk.cached, walk.blocks), (LIVE - 5 * 64, 5 * 64, 19 + 8 + 1));
        assert_eq!((walk.breaks, walk.skipped, walk.layout.astray()), (0, 0, 0));
        assert_eq!((walk.checks[0].wanted, walk.checks[0].found), (15 * PAGE, 15 * PAGE));
        assert_eq!(walk.forecasts[0].bytes, 6 * PAGE);
        let name = if matches!(shape, Shape::Older) { "5.2, for" } else { "5.3, for" };
        assert!(walk.version.starts_with(name), "{}", walk.version);
    }
}

#[test]
fn a_slab_may_lie_across_the_end_of_a_leaf() {
    let walk = walk(&heap_at(Shape::Two, 5, HEAP - 3 * PAGE));
    assert_eq!((walk.live, walk.cached, walk.blocks), (LIVE - 5 * 64, 5 * 64, 19 + 8 + 1));
    assert_eq!((walk.breaks, walk.skipped, walk.layout.astray()), (0, 0, 0));
}

#[test]
fn an_extent_in_memory_that_was_mapped_since_does_not_hide_the_tree() {
    let mut fake = heap_at(Shape::Two, 5, HEAP - (512 << 10));
    // A free extent below all mappings: the first entry of the leaf.
    let (new, edata) = (HEAP - (2 << 20), EDATA + 0x1000);
    fake.put(edata, &[1 << 17 | 232 << 20, new, PAGE]);
    entry(&mut fake, Shape::Two, (new / PAGE, edata, 1, 232, false));
    let fake = fake.done();
    let found = walk(&fake);
    assert_eq!((found.live, found.cached), (LIVE - 5 * 64, 5 * 64));
}

#[test]
fn the_parts_of_an_arena_add_up_to_its_resident_pages() {
    let fake = heap(Shape::Two, 5);
    let walk = walk(&fake);
    let parts = walk.layout.parts(crate::Memory::pages(&fake), walk.arenas.len() as u32);
    assert_eq!((walk.arenas[0].at, walk.arenas[0].threads), (ARENA, Some(3)));
    assert_eq!(parts[0].of(Part::Live), LIVE - 5 * 64);
    assert_eq!(parts[0].of(Part::Cached), 5 * 64);
    assert_eq!(parts[0].of(Part::FreePages), 6 * PAGE);
    assert_eq!(parts[0].sum(), 21 * PAGE);
    assert_eq!(parts[1].of(Part::Metadata), parts[1].sum());
}

#[test]
fn a_slab_whose_bitmap_disagrees_is_skipped() {
    let mut fake = heap(Shape::Two, 0);
    fake.put(EDATA + 64, &[(1 << 40) - 2]);
    let walk = walk(&fake);
    assert_eq!((walk.breaks, walk.skipped), (1, PAGE));
    assert!(walk.trust(15 * PAGE).is_err());
}

#[test]
fn an_extent_that_is_not_as_long_as_the_tree_says_is_skipped() {
    let mut fake = heap(Shape::Three, 0);
    fake.put(EDATA + 128 + 16, &[6 * PAGE]);
    assert_eq!(walk(&fake).breaks, 1);
}

#[test]
fn a_large_block_whose_extent_is_another_by_now_is_known_by_the_tree() {
    let mut fake = heap(Shape::Two, 0);
    fake.put(EDATA + 2 * 128 + 8, &[HEAP + 0x80000, PAGE]);
    let walk = walk(&fake);
    assert_eq!((walk.live, walk.breaks, walk.skipped), (LIVE, 1, 0));
}

/// In the large block, and in the last region of the slab of 2560 bytes, of which 40 stacks of 64 bytes take all.
#[test]
fn the_blocks_that_thread_caches_are_in_are_structures() {
    for (stacks, bytes) in [(HEAP + 6 * PAGE + 0x440, 32 << 10), (HEAP + PAGE + 7 * 2560, 2560)] {
        let fake = heap_with(Shape::Two, 5, HEAP, stacks);
        let walk = walk(&fake);
        assert_eq!((walk.live, walk.cached, walk.blocks), (LIVE - 5 * 64 - bytes, 5 * 64, 19 + 8), "{bytes}");
        let structures = |walk: &Walk| walk.layout.parts(&fake.pages, walk.arenas.len() as u32)[0].of(Part::Metadata);
        assert_eq!(structures(&walk), bytes);
    }
}

#[test]
fn a_cached_block_of_another_class_is_not_believed() {
    let mut fake = heap(Shape::Two, 3);
    fake.put(TLS + 0x1000 + 5 * 0x40 - 8, &[HEAP + PAGE]);
    let walk = walk(&fake);
    assert_eq!((walk.live, walk.cached, walk.breaks, walk.moved), (LIVE - 2 * 64, 2 * 64, 1, 64));
}

#[test]
fn a_cache_of_another_jemalloc_is_none_of_this_one() {
    let mut fake = heap(Shape::Two, 2);
    fake.put(TLS + 0x1000 + 5 * 0x40 - 16, &[0x6600_0000_0000, 0x6600_0000_0040]);
    let walk = walk(&fake);
    assert_eq!((walk.live, walk.cached, walk.breaks, walk.moved), (LIVE, 0, 0, 0));
}

/// Both read the other's heap, and refuse it: no extent is what its entry in the tree says.
#[test]
fn a_release_refuses_the_heap_of_its_neighbour() {
    for (shape, own, other) in [(Shape::Two, 0, 2), (Shape::Older, 2, 0)] {
        let fake = heap(shape, 0);
        let trees = super::rtree::find(&fake);
        let read = |release: usize| Extents::read(&fake, &trees[0], &ALL[release]).expect("a tree");
        assert!(super::readable(&read(own)).is_ok());
        assert!(super::readable(&read(other)).unwrap_err().starts_with("layout unknown"));
    }
}

#[test]
fn an_arena_that_counts_more_pages_is_seen() {
    let mut fake = heap(Shape::Two, 0);
    fake.put(ARENA + 0x48, &[17]);
    assert!(walk(&fake).trust(15 * PAGE).unwrap_err().contains("the allocator counts 69632, the walk found 61440"));
}

#[test]
fn the_layout_of_another_release_is_refused() {
    let mut fake = heap(Shape::Two, 0);
    for index in 0..4 {
        let bits = crate::Memory::word(&fake, EDATA + 128 * index).unwrap();
        fake.put(EDATA + 128 * index, &[bits ^ 1 << 17]);
    }
    let error = (WALKER.walk)(&fake).pop().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("jemalloc: heap not analysed: layout unknown"), "{error}");
}

#[test]
fn pointers_to_ordinary_memory_are_no_tree() {
    let mut fake = FakeMemory::default();
    fake.map(GLOBALS, 4 << 20, true, 7, "/bin/program");
    fake.map(HEAP, 16 << 20, true, 0, "");
    for index in 0..4096 {
        let block = HEAP + 64 * index;
        fake.put(GLOBALS + 8 * index, &[block]);
        // A list with lengths.
        fake.put(block, &[block + 128 * (index % 7), 24, 4096 + index, block + 64]);
    }
    assert!((WALKER.walk)(&fake.done()).is_empty());
}

/// As with `metadata_thp:always`: all of it is resident, and its first entries are of addresses that nobody has.
#[test]
fn a_leaf_in_a_huge_page_begins_with_zeroes() {
    for shape in [Shape::Two, Shape::Three] {
        let mut fake = heap_at(shape, 0, HEAP + (64 << 20));
        fake.map(HEAP + (63 << 20), 3 << 20, true, 0, "");
        fake.mappings.sort_by_key(|one| one.from);
        fake.touch(LEAF, LEAF + (2 << 20));
        assert_eq!(walk(&fake.done()).live, LIVE);
    }
}

#[test]
fn a_tree_whose_leaves_lie_in_one_another_is_none() {
    for shape in [Shape::Two, Shape::Three] {
        // Its pages are in two leaves, so that one that is wrong does not outweigh those that prove the tree.
        let mut fake = heap_at(shape, 0, HEAP - 8 * PAGE);
        assert!((WALKER.walk)(&fake).pop().unwrap().is_ok());
        // A slot of the last level but one, behind those that prove the tree.
        match shape {
            Shape::Two | Shape::Older => fake.put(ROOT + 8 * 5, &[LEAF + 64]),
            Shape::Three => fake.put(NODE + 8 * 0x7000, &[LEAF + 64]),
        }
        let error = (WALKER.walk)(&fake.done()).pop().unwrap().unwrap_err().to_string();
        assert!(error.ends_with("found a tree whose leaves lie in one another"), "{error}");
    }
}

#[test]
fn a_process_without_it_has_no_walk_and_one_with_its_library_says_so() {
    let mut fake = FakeMemory::default();
    fake.map(GLOBALS, 0x1000, true, 7, "/bin/program");
    assert!((WALKER.walk)(&fake.done()).is_empty());
    let mut fake = FakeMemory::default();
    fake.map(GLOBALS, 0x1000, false, 7, "/usr/lib/libjemalloc.so.1");
    let elf = [0x2_464c_457f, 0, 0, 0, 64, 0, 0, 1];
    fake.put(GLOBALS, &elf);
    fake.put(GLOBALS + 64, &[4, 0x200, 0, 0, 0x14, 0x14]);
    fake.put(GLOBALS + 0x200, &[4 | 4 << 32, 3 | u64::from(u32::from_le_bytes(*b"GNU\0")) << 32, 0xefbe_adde]);
    let error = (WALKER.walk)(&fake.done()).pop().unwrap().unwrap_err().to_string();
    assert!(error.ends_with("found /usr/lib/libjemalloc.so.1, build-id deadbeef"), "{error}");
}

#[test]
fn fuzz_damaged_heaps_are_refused_or_warned_about() {
    let shape = prop_oneof![Just(Shape::Two), Just(Shape::Three), Just(Shape::Older)];
    holds(1000, 2, (shape, 0..8_u64, damage()), |(shape, cached, damage)| {
        walk_damaged(&WALKER, heap(shape, cached), damage);
    });
}

#[test]
fn a_copy_of_a_heap_that_is_still_is_walked_as_the_heap() {
    for shape in [Shape::Two, Shape::Three, Shape::Older] {
        let fake = heap_with(shape, 5, HEAP, HEAP + PAGE + 7 * 2560);
        let (copied, walked) = ((WALKER.by_copy.unwrap())(&fake).pop().unwrap().unwrap(), walk(&fake));
        let told = |walk: &Walk| (walk.live, walk.cached, walk.blocks, walk.breaks, walk.forecasts.clone());
        assert_eq!(told(&copied), told(&walked));
        let parts = |walk: &Walk| walk.layout.parts(&fake.pages, walk.arenas.len() as u32);
        assert_eq!(parts(&copied), parts(&walked));
        // Two threads may each be inside of a call.
        assert_eq!(copied.copied.unwrap().within, 2 * (32 << 10));
    }
}

#[test]
fn what_the_arenas_count_and_a_copy_has_not_is_in_its_bound() {
    let mut fake = heap(Shape::Two, 0);
    fake.put(ARENA + 0x48, &[17]);
    let copied = (WALKER.by_copy.unwrap())(&fake).pop().unwrap().unwrap();
    assert_eq!((copied.live, copied.copied.unwrap().within), (LIVE, 2 * PAGE + 2 * (32 << 10)));
    // More than 3 % of the active bytes.
    assert!(!copied.is_trusted(&fake.pages));
}

#[test]
fn the_counters_are_those_of_the_arenas() {
    use crate::counts::MemoryReader;
    for shape in [Shape::Two, Shape::Three] {
        let memory = heap(shape, 0);
        let place = super::counters::JemallocPlace::find(&memory).unwrap();
        let counters = place.read(&memory).unwrap();
        let walked = walk(&memory);
        let active = walked.checks.iter().find(|check| check.what == "bytes of active extents").unwrap();
        assert_eq!((counters.arenas, counters.active), (1, Some(active.wanted)));
        struct Gone;
        impl MemoryReader for Gone {
            fn copy(&self, _: u64, into: &mut [u8]) -> bool {
                into.fill(0);
                true
            }
        }
        assert_eq!(place.read(&Gone), None, "something else is there now");
    }
}
