//! Heaps that a test writes, and what the walker makes of them.

use std::cell::Cell;
use std::ops::Range;

use allocanary_testing::fuzz::holds;

use super::WALKER;
use super::release::{ALL, AREA, CLASSES, UNIT};
use crate::damage::{damage, walk_damaged};
use crate::fake::FakeMemory;
use crate::{Machine, Mapping, Memory, PAGE, PageStates, Part, ThreadId, Walk};

const GLOBALS: u64 = 0x5000_0000_0000;
const CONTEXT: u64 = GLOBALS + 0x1080;
const AREAS: u64 = 0x5500_0000_0000;
const HEAP: u64 = 0x7100_0000_0000;
const GIVEN: u64 = GLOBALS + 0x2000;
const LARGE: u64 = HEAP + (8 << 20);
const SECRET: u64 = 0x1d2c_3b4a_5968_7788;

/// A group of the test: its place, its slots and their class, the pages of its mapping, the slots that were freed, and those never used.
struct One {
    from: u64,
    count: u64,
    class: u64,
    pages: u64,
    freed: u64,
    available: u64,
    freeable: bool,
}

/// The slot of a group.
fn slot(from: u64, class: u64, index: u64) -> u64 {
    from + UNIT + index * CLASSES[class as usize] * UNIT
}

/// The groups: 15 slots of 1,008 bytes, in whose slot 2 are 15 slots of 48 bytes; 20 of 3,264 bytes, again and again; what the loader gave;
/// and a large block.
fn groups() -> Vec<One> {
    let group = |from, count, class, pages, freed, available| One {
        from,
        count,
        class,
        pages,
        freed,
        available,
        freeable: true,
    };
    let mut all = vec![
        group(HEAP, 15, 19, 4, 0b1000, 1 << 14),
        group(slot(HEAP, 19, 2), 15, 2, 0, 0b10, 0x7000),
        One { from: GIVEN, count: 1, class: 15, pages: 0, freed: 0, available: 0, freeable: false },
        group(LARGE, 1, 63, 64, 0, 0),
    ];
    all.extend((0..8).map(|index| group(HEAP + (index + 1) * 0x11000, 20, 26, 17, 1 << index, 1 << 19)));
    all
}

fn heap() -> FakeMemory {
    let (mut fake, release) = (FakeMemory::default(), &ALL[0]);
    fake.map(GLOBALS, 0x3000, true, 7, "/lib/ld-musl-x86_64.so.1");
    fake.map(AREAS, 2 * AREA, true, 0, "[heap]");
    fake.map(HEAP, 1 << 20, true, 0, "");
    fake.map(LARGE, 64 * PAGE, true, 0, "");
    let fields = &release.context;
    // The areas need not be in the order of their addresses.
    let areas = [AREAS + AREA, AREAS];
    for (area, next) in areas.into_iter().zip([AREAS, 0]) {
        fake.put(area, &[SECRET, next, release.metas()]);
    }
    let slots = |area: u64| area + release.area.slots as u64;
    let mut usage = [0; 48];
    for (number, one) in (0..).zip(groups()) {
        // The first area is full: its other metas are idle, and so is one of the second.
        let meta = slots(areas[usize::from(number >= 3)]) + number * release.meta.bytes as u64;
        let bits = (one.count - 1) | u64::from(one.freeable) << 5 | one.class << 6 | one.pages << 12;
        fake.put(meta + 16, &[one.from, one.available | one.freed << 32, bits]);
        fake.touch(one.from, one.from + (one.pages * PAGE).max(1));
        fake.put(one.from, &[meta]);
        if one.class != 63 && one.freeable {
            usage[one.class as usize] += one.count;
        }
        for index in (0..one.count).filter(|index| one.available >> index & 1 == 0) {
            let at = if one.class == 63 { one.from + UNIT } else { slot(one.from, one.class, index) };
            let distance = (at - one.from) / UNIT - 1;
            let is_group = one.class == 19 && index == 2;
            let bits = match one.freed >> index & 1 {
                1 => 0xff,
                _ => index | if is_group { 6 << 5 } else { 0 },
            };
            fake.write(at - 4, &[0, bits as u8, distance as u8, (distance >> 8) as u8]);
        }
    }
    // The large block leaves 100 bytes.
    fake.write(LARGE + UNIT - 3, &[5 << 5]);
    fake.write(LARGE + 64 * PAGE - 8, &100_u32.to_le_bytes());
    let used = 12;
    let idle: Vec<u64> = (3..release.metas())
        .map(|number| slots(areas[0]) + 40 * number)
        .chain((0..3).map(|number| slots(areas[1]) + 40 * number))
        .collect();
    for (at, next) in idle.iter().zip(idle.iter().cycle().skip(1)) {
        fake.put(at + release.meta.next as u64, &[*next]);
    }
    fake.put(CONTEXT, &[SECRET, 1]);
    fake.put(CONTEXT + fields.free as u64, &[idle[0], slots(AREAS) + 40 * used, release.metas() - used]);
    fake.put(CONTEXT + fields.head as u64, &[areas[0], areas[1]]);
    fake.put(CONTEXT + fields.usage as u64, &usage);
    fake.done()
}

/// Blocks of a slot of 1,008 bytes, of 48, of 3,264; what the loader gave; and the large one.
const BLOCKS: u64 = 12 + 11 + 8 * 18 + 1 + 1;
const LIVE: u64 = 12 * 1008 + 11 * 48 + 8 * 18 * 3264 + 31 * 16 + (64 * PAGE - 16);

fn walk(fake: &FakeMemory) -> Walk {
    (WALKER.walk)(fake).pop().expect("a heap").expect("a walk")
}

#[test]
fn every_block_is_live_or_free_and_a_group_in_a_slot_is_no_block() {
    let (fake, walk) = (heap(), walk(&heap()));
    assert_eq!((walk.live, walk.blocks, walk.cached, walk.moved), (LIVE, BLOCKS, 0, 0));
    assert_eq!((walk.breaks, walk.skipped, walk.layout.astray()), (0, 0, 0));
    let checks: Vec<_> = walk.checks.iter().map(|check| (check.wanted, check.found)).collect();
    let slots = 15 * 1008 + 15 * 48 + 8 * 20 * 3264;
    assert_eq!(checks, [(190, 190), (slots, slots), (113, 113)]);
    let parts = walk.layout.parts(&fake.pages, walk.arenas.len() as u32);
    let live: u64 = parts.iter().map(|parts| parts.of(Part::Live)).sum();
    assert_eq!(live, LIVE - 31 * 16, "what the loader gave is in a page of the library");
    assert_eq!(parts[2].of(Part::Metadata), 2 * AREA);
}

#[test]
fn a_block_is_listed_where_the_program_has_it() {
    let at = slot(HEAP, 19, 4);
    let listed = |fake: &FakeMemory| {
        let mut walk = walk(fake);
        assert_eq!((walk.breaks, walk.blocks), (0, BLOCKS));
        let all = walk.layout.take_live();
        assert_eq!(all.len() as u64, BLOCKS);
        { all }
            .into_iter()
            .find(|block| (at..at + 1008).contains(&block.at))
            .map(|block| (block.at, block.bytes))
            .unwrap()
    };
    let heap = || heap().wanting_blocks();
    let mut fake = heap();
    // Three bytes are left.
    fake.write(at - 3, &[4 | 3 << 5]);
    assert_eq!(listed(&fake), (at, 1008 - 4 - 3));
    // It begins five units behind the slot, and 100 bytes are left.
    let mut fake = heap();
    fake.write(at - 3, &[7 << 5, 5, 0]);
    let units = (at - slot(HEAP, 19, 0)) / UNIT + 5;
    fake.write(at + 5 * UNIT - 4, &[0, 4 | 5 << 5, units as u8, (units >> 8) as u8]);
    fake.write(at + 1008 - 8, &100_u32.to_le_bytes());
    assert_eq!(listed(&fake), (at + 80, 1008 - 80 - 4 - 100));
}

#[test]
fn a_block_whose_head_contradicts_its_mask_is_noticed() {
    for (index, byte) in [(4, 0xff), (3, 3), (5, 6)] {
        let mut fake = heap();
        fake.write(slot(HEAP, 19, index) - 3, &[byte]);
        if index == 3 {
            fake.write(slot(HEAP, 19, index) - 2, &[(3 * 63) as u8, 0]);
        }
        assert_eq!((walk(&fake).breaks, walk(&fake).skipped), (1, 1008), "{index}");
    }
    let mut fake = heap();
    fake.put(HEAP + 0x11000, &[1]);
    assert_eq!((walk(&fake).breaks, walk(&fake).skipped), (1, 20 * 3264));
}

#[test]
fn a_group_that_the_metas_have_lost_is_noticed() {
    let mut fake = heap();
    fake.put(AREAS + 24 + 40 * 4 + 16, &[0]);
    assert!(walk(&fake).trust(1 << 30).unwrap_err().starts_with("slots of groups: the allocator counts 190"));
    // A large block is in no class.
    let mut fake = heap();
    fake.put(AREAS + 24 + 40 * 3 + 16, &[0]);
    let walk = walk(&fake);
    assert_eq!((walk.checks[2].wanted, walk.checks[2].found), (113, 112));
}

#[test]
fn a_context_proves_itself_or_is_none() {
    let fields = &ALL[0].context;
    for place in [CONTEXT, CONTEXT + fields.tail as u64, CONTEXT + fields.next as u64, CONTEXT + fields.left as u64] {
        let mut fake = heap();
        fake.put(place, &[0x1234_5678]);
        assert!((WALKER.walk)(&fake).is_empty(), "{place:x}");
    }
    for place in [AREAS, AREAS + 16] {
        let mut fake = heap();
        fake.put(place, &[9]);
        assert!((WALKER.walk)(&fake).is_empty(), "{place:x}");
    }
}

/// The bits of the large block's meta.
const LARGE_BITS: u64 = AREAS + 24 + 40 * 3 + 32;

#[test]
fn a_class_that_is_none_is_noticed() {
    let bits = |class: u64, pages: u64| 1 << 5 | class << 6 | pages << 12;
    for (class, pages) in [(62, 64), (48, 64), (63, 0)] {
        let mut fake = heap();
        fake.put(LARGE_BITS, &[bits(class, pages)]);
        assert_eq!((walk(&fake).breaks, walk(&fake).blocks), (1, BLOCKS - 1), "{class}");
    }
}

#[test]
fn a_large_block_of_a_wrong_length_is_not_exact() {
    // Its mapping has 64 pages.
    for pages in [63, 65, 576] {
        let mut fake = heap();
        fake.put(LARGE_BITS, &[1 << 5 | 63 << 6 | pages << 12]);
        let found = walk(&fake);
        assert!(found.breaks + found.moved > 0, "{pages}");
    }
    // A page in swap excuses that its end cannot be read, and not that it has no mapping.
    let mut fake = heap();
    fake.put(LARGE_BITS, &[1 << 5 | 63 << 6 | 576 << 12]);
    fake.swap_out(LARGE + 9 * PAGE);
    let walk = walk(&fake.done());
    assert_eq!((walk.breaks, walk.moved), (0, 576 * PAGE));
}

/// The large block begins 20 pages behind its slot.
fn aligned() -> FakeMemory {
    let mut fake = heap();
    let units = 20 * PAGE / UNIT;
    fake.write(LARGE + UNIT - 3, &[7 << 5, units as u8, (units >> 8) as u8]);
    fake.write(LARGE + UNIT + 20 * PAGE - 4, &[0, 5 << 5, units as u8, (units >> 8) as u8]);
    fake
}

#[test]
fn a_block_is_found_however_it_is_aligned() {
    let mut walk = walk(&aligned().wanting_blocks());
    assert_eq!(walk.breaks, 0);
    let blocks = walk.layout.take_live();
    let block = blocks.iter().find(|block| block.at == LARGE + UNIT + 20 * PAGE).expect("the aligned one");
    assert_eq!(block.bytes, 44 * PAGE - UNIT - 4 - 100);
}

#[test]
fn a_large_block_whose_end_is_in_swap_is_counted_by_its_meta() {
    let mut fake = heap();
    fake.swap_out(LARGE + 63 * PAGE);
    let walk = walk(&fake.done());
    assert_eq!((walk.live, walk.blocks, walk.breaks, walk.swapped), (LIVE, BLOCKS, 0, PAGE));
}

#[test]
fn what_is_in_swap_is_counted_by_its_meta() {
    let mut fake = heap();
    fake.swap_out(HEAP + 0x11000 + PAGE);
    let walk = walk(&fake.done());
    assert_eq!((walk.live, walk.blocks, walk.breaks, walk.swapped), (LIVE, BLOCKS, 0, PAGE));
}

/// A process that goes on: its pages and mappings are those of a while ago, and after so many reads some memory has gone.
struct Running {
    heap: FakeMemory,
    after: FakeMemory,
    gone: Range<u64>,
    change: u64,
    reads: Cell<u64>,
    failed: Cell<u64>,
}

impl Running {
    fn of(heap: FakeMemory) -> Running {
        let (reads, failed) = (Cell::new(0), Cell::new(0));
        Running { heap, after: FakeMemory::default(), gone: 0..0, change: u64::MAX, reads, failed }
    }

    fn walk(&self) -> Walk {
        self.reads.set(0);
        self.failed.set(0);
        (WALKER.walk)(self).pop().expect("a heap").expect("a walk")
    }
}

impl Memory for Running {
    fn machine(&self) -> Machine {
        self.heap.machine()
    }

    fn mappings(&self) -> &[Mapping] {
        &self.heap.mappings
    }

    fn threads(&self) -> &[ThreadId] {
        &[]
    }

    fn pages(&self) -> &PageStates {
        &self.heap.pages
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let has_changed = self.reads.replace(self.reads.get() + 1) >= self.change;
        let is_read = match has_changed {
            true if self.gone.contains(&at) => false,
            true => self.after.read(at, into),
            false => self.heap.read(at, into),
        };
        // What has no page is zeroes.
        for (_, byte) in (at..).zip(into).filter(|(at, _)| self.heap.pages.state(*at).is_none()) {
            *byte = 0;
        }
        self.failed.set(self.failed.get() + u64::from(!is_read));
        is_read
    }

    fn read_now(&self, at: u64, into: &mut [u8]) -> bool {
        self.heap.read_now(at, into)
    }
}

/// The group of 20 slots of this number.
fn seventeen_pages(number: u64) -> Range<u64> {
    let from = HEAP + (number + 1) * 0x11000;
    from..from + 0x11000
}

/// The same heap, when these pages were not yet there.
fn before(mut fake: FakeMemory, grown: &Range<u64>) -> FakeMemory {
    let mut pages = PageStates::default();
    let runs = fake.pages.within(0, grown.start).chain(fake.pages.within(grown.end, u64::MAX));
    runs.for_each(|run| pages.push(run));
    fake.pages = pages;
    fake
}

#[test]
fn what_was_written_since_the_pages_were_looked_at_is_no_break() {
    let walk = Running::of(before(heap(), &seventeen_pages(3))).walk();
    assert_eq!((walk.live, walk.blocks, walk.breaks, walk.moved), (LIVE, BLOCKS, 0, 0));
}

#[test]
fn groups_that_were_mapped_since_the_mappings_were_read_prove_themselves() {
    let large = LARGE..LARGE + 64 * PAGE;
    for (heap, new) in [(heap(), seventeen_pages(7)), (heap(), large.clone()), (aligned(), large)] {
        let mut fake = before(heap, &new);
        for mapping in &mut fake.mappings {
            if (mapping.from..mapping.to).contains(&new.start) {
                mapping.to = new.start;
            }
        }
        let walk = Running::of(fake).walk();
        assert_eq!((walk.live, walk.blocks, walk.breaks, walk.moved), (LIVE, BLOCKS, 0, UNIT), "{new:x?}");
    }
}

#[test]
fn groups_that_go_while_they_are_read_cost_one_read_each_and_are_no_breaks() {
    let gone = seventeen_pages(2).start..seventeen_pages(4).end;
    let mut after = heap();
    for number in 2..=4 {
        after.put(AREAS + 24 + 40 * (4 + number) + 16, &[0]);
    }
    let mut running = Running { after, gone, ..Running::of(heap()) };
    running.walk();
    for change in 0..=running.reads.get() {
        running.change = change;
        let walk = running.walk();
        assert!(walk.breaks == 0 && running.failed.get() <= 3, "{change}: {} breaks", walk.breaks);
    }
}

#[test]
fn fuzz_damaged_heaps_are_refused_or_warned_about() {
    holds(1000, 2, damage(), |damage| walk_damaged(&WALKER, heap(), damage));
}
