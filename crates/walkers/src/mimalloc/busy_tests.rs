//! Heaps that are copied because they change: those of the other tests, still and while they change.

use std::cell::Cell;

use super::page::SLICE;
use super::tests::{ARENA, LIVE, META, ROOT, chain, enter, heap, heap_of, list};
use super::{WALKER, older, release, segments_tests};
use crate::fake::FakeMemory;
use crate::{Machine, Mapping, Memory, PageStates, Part, ThreadId, Walk, best_of};

/// The walk of a copy.
fn by_copy(memory: &dyn Memory) -> Walk {
    (WALKER.by_copy.unwrap())(memory).pop().expect("a heap").expect("a walk")
}

/// The live bytes, those of blocks that others have freed, blocks, and by how much the live bytes may be off.
fn told(walk: &Walk) -> (u64, u64, u64, u64) {
    (walk.live, walk.cached, walk.blocks, walk.copied.expect("it is from a copy").within)
}

#[test]
fn a_copy_of_a_heap_that_is_still_has_its_live_bytes_and_all_but_its_holes() {
    for release in release::ALL {
        let fake = heap_of(release);
        let (copied, walked) = (by_copy(&fake), (WALKER.walk)(&fake).pop().unwrap().unwrap());
        assert_eq!(told(&copied), (LIVE, 2 * 2048, 13 + 65 + 1, 2 * 2048), "{}", release.name);
        assert_eq!((&copied.checks, &copied.forecasts), (&walked.checks, &walked.forecasts));
        let parts = |walk: &Walk| walk.layout.parts(fake.pages(), walk.arenas.len() as u32);
        // Five of the 20 blocks of 2048 bytes are free, two are freed by others.
        let holes = parts(&copied)[0].of(Part::Unknown);
        assert_eq!(holes, 7 * 2048);
        for (copied, walked) in parts(&copied).into_iter().zip(parts(&walked)) {
            assert_eq!(copied.of(Part::Live), walked.of(Part::Live));
            assert_eq!(copied.of(Part::Metadata), walked.of(Part::Metadata));
            assert_eq!(copied.sum(), walked.sum());
        }
        assert_eq!(copied.layout.live_in_a_page(fake.pages()), None);
    }
    for release in older::ALL {
        let copied = by_copy(&segments_tests::heap(release, segments_tests::SHORT));
        let live = segments_tests::LIVE + (segments_tests::SHORT - 1) * SLICE;
        assert_eq!(told(&copied), (live, 3 * 2048, 4 + 51 + 1, 3 * 2048), "{}", release.name);
        assert!(copied.breaks == 0 && copied.checks.iter().all(|check| check.wanted == check.found));
    }
}

/// A heap that becomes another one, of as many live bytes in other pages, and back again after so many reads each time.
struct Moving {
    memories: [FakeMemory; 2],
    reads: Cell<u64>,
    /// The first read of the other heap.
    first: u64,
    every: u64,
}

/// The page of blocks of 64 bytes has its structure on another page of memory than the others: it is copied by another read.
const APART: u64 = ARENA + 0xc000;

impl Moving {
    fn new(first: u64, every: u64) -> Moving {
        let apart = |mut fake: FakeMemory| {
            let mut bytes = vec![0; release::ALL[0].page.bytes];
            assert!(fake.read(META + 3 * 120, &mut bytes));
            fake.write(APART, &bytes);
            enter(&mut fake, ROOT + release::ALL[0].map_head, ARENA + 3 * SLICE, APART);
            fake
        };
        // 13 blocks of 2048 bytes are freed, and 416 of 64 are allocated: as much memory in another page, 2 % of what is live.
        let mut after = apart(heap());
        list(&mut after, META + 120 + 8, ARENA + SLICE, &[3, 1, 2, 0, 4, 5, 6, 7, 11, 13, 14, 15, 16, 17, 18, 19], 0);
        after.put(META + 120 + 16, &[2 | 20 << 16 | 32 << 32]);
        let free: Vec<u64> = (416..1024).collect();
        chain(&mut after, APART + 8, ARENA + 3 * SLICE, 64, &free);
        after.put(APART + 16, &[416 | 1024 << 16 | 1024 << 32]);
        Moving { memories: [apart(heap()).done(), after.done()], reads: Cell::new(0), first, every }
    }
}

impl Memory for Moving {
    fn machine(&self) -> Machine {
        self.memories[0].machine()
    }

    fn mappings(&self) -> &[Mapping] {
        self.memories[0].mappings()
    }

    fn threads(&self) -> &[ThreadId] {
        &[]
    }

    fn pages(&self) -> &PageStates {
        self.memories[0].pages()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let reads = self.reads.get();
        self.reads.set(reads + 1);
        let changes = reads.checked_sub(self.first).map_or(0, |reads| 1 + reads / self.every);
        self.memories[(changes % 2) as usize].read(at, into)
    }
}

#[test]
fn a_copy_that_has_one_page_before_a_change_and_another_one_after_it_is_not_taken() {
    let still = Moving::new(u64::MAX, 1);
    assert_eq!(told(&by_copy(&still)), (LIVE, 2 * 2048, 79, 2 * 2048));
    let reads = still.reads.get();
    for first in 0..reads {
        let (live, _, _, within) = told(&by_copy(&Moving::new(first, u64::MAX)));
        assert_eq!((live, within), (LIVE, 2 * 2048), "it changed before read {first} of {reads}");
    }
}

#[test]
fn a_heap_is_copied_if_no_walk_of_it_can_be_trusted() {
    let walked = |first, every| best_of(3, || Ok::<_, ()>(Moving::new(first, every))).unwrap();
    let still = walked(u64::MAX, 1);
    assert!(still.walks[0].as_ref().is_ok_and(|walk| walk.copied.is_none() && walk.live == LIVE));
    let mut copied = 0;
    for every in 20..200 {
        let moving = walked(20, every);
        let walk = moving.walks[0].as_ref().unwrap();
        let within = walk.copied.map_or(LIVE / 50, |copied| copied.within);
        let is_right = walk.live.abs_diff(LIVE) <= within;
        assert!(
            is_right || !walk.is_trusted(moving.memory.pages()),
            "it changes every {every} reads: {} live",
            walk.live
        );
        copied += u64::from(walk.copied.is_some());
    }
    assert!(copied > 0, "each walk could be trusted");
}
