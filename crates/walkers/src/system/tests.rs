//! Heaps of every release, laid out in bytes: undamaged and damaged.

use std::cell::Cell;

use allocanary_testing::fuzz;
use proptest::prelude::*;

use super::checks::{self, Walked};
use super::image::{HEAP, HEAP_BYTES, MMAPPED, THREAD_BYTES, THREAD_HEAPS, Truth, image};
use super::memories::Memories;
use super::release::ALL;
use super::structures::Structures;
use super::{GlibcHeap, WALKER, arenas, divide, read, read_all};
use crate::damage::{damage, walk_damaged};
use crate::fake::FakeMemory;
use crate::{CountCheck, Fact, Machine, Mapping, Memory, PAGE, PageStates, ThreadId, best_of};

#[test]
fn a_heap_of_every_release_is_read() {
    for release in ALL {
        let (fake, truth) = image(release, false);
        let heap = read(&fake).expect("it has an arena").unwrap();
        assert_eq!(heap.walk.version, format!("2.{}", release.since));
        assert_eq!((heap.walk.live, heap.walk.blocks, heap.walk.cached), (truth.live, truth.blocks, truth.cached));
        assert_eq!(heap.free, truth.free, "2.{}", release.since);
        assert_eq!((heap.walk.breaks, heap.walk.skipped, heap.walk.layout.astray()), (0, 0, 0), "2.{}", release.since);
        for check in &heap.walk.checks {
            assert_eq!(check.wanted, check.found, "2.{}: {}", release.since, check.what);
        }
    }
}

#[test]
fn a_static_program_shows_its_release_by_its_structures() {
    for release in ALL {
        let (fake, truth) = image(release, true);
        let heap = read(&fake).expect("it has an arena").unwrap();
        assert_eq!(heap.walk.version, release.name);
        assert_eq!((heap.walk.live, heap.walk.breaks), (truth.live, 0));
    }
}

#[test]
fn words_that_are_like_parameters_but_know_no_heap_are_not_taken() {
    let (mut fake, truth) = image(&ALL[3], false);
    fake.put(truth.main - 0x200, &[0, 0, 0, 3, 100, 5, 0]);
    assert_eq!(read(&fake.done()).expect("it has an arena").unwrap().walk.live, truth.live);
}

#[test]
fn words_that_are_like_another_arena_are_no_c_library_unless_it_has_memory() {
    let with_another = |system: u64| {
        let (mut fake, truth) = image(&ALL[3], false);
        let main = 0x7f40_0000_0440_u64;
        fake.map(main - 0x440, 4 * PAGE, true, 9, "/lib/other");
        let bins = main + ALL[3].bins;
        (0..127).for_each(|bin| fake.put(bins + 16 * bin, &[bins + 16 * bin - 16; 2]));
        fake.put(bins - 16, &[bins - 16]);
        fake.put(bins + 2048, &[main, 0, 1, system, system]);
        let heaps = read_all(&fake.done());
        assert_eq!(heaps[0].as_ref().unwrap().walk.live, truth.live);
        assert!(heaps[1..].iter().all(Result::is_err));
        heaps.len()
    };
    assert_eq!((with_another(0), with_another(8 * PAGE)), (1, 2));
}

#[test]
fn a_release_that_is_not_known_is_not_divided() {
    let (mut fake, _) = image(&ALL[3], false);
    fake.write(0x7f10_0000_0000, b"x release version 2.23.");
    let error = read(&fake).expect("it has an arena").unwrap_err();
    assert!(error.to_string().contains("2.23: layout unknown"), "{error}");
}

#[test]
fn a_free_block_that_seems_to_be_in_use_is_noticed() {
    let (mut fake, truth) = image(&ALL[3], false);
    let header = fake.word(truth.behind_free + 8).unwrap();
    fake.put(truth.behind_free + 8, &[header | 1]);
    assert_eq!(read(&fake).expect("it has an arena").unwrap().walk.breaks, 1);
}

#[test]
fn a_block_without_a_size_is_skipped_up_to_the_next_ones() {
    let (mut fake, truth) = image(&ALL[3], false);
    fake.put(truth.behind_free + 8, &[0x7777_7770]);
    let walk = read(&fake).expect("it has an arena").unwrap().walk;
    assert_eq!(walk.skipped, 0x120);
    assert_eq!(walk.live, truth.live - 0x120);
    assert!(walk.breaks > 0);
}

#[test]
fn a_thread_cache_that_leads_astray_is_noticed() {
    let (mut fake, truth) = image(&ALL[3], false);
    fake.put(truth.list, &[truth.behind_free + 16]);
    assert!(read(&fake).expect("it has an arena").unwrap().walk.breaks > 0);
}

#[test]
fn an_end_that_is_far_from_the_beginning_is_no_heap() {
    let (mut fake, truth) = image(&ALL[3], false);
    let far = truth.main + 3 * PAGE;
    fake.put(truth.main + ALL[3].bins - 16, &[far]);
    fake.put(far + 8, &[0x101]);
    let walk = read(&fake.done()).expect("it has an arena").unwrap().walk;
    assert!(walk.breaks > 0 && walk.checks.iter().any(|check| !check.holds()));
}

/// The mappings were read earlier. By now the main arena and a thread's arena have blocks and their ends after these
/// mappings.
#[test]
fn a_heap_that_has_grown_since_its_mappings_were_read_is_walked_as_far_as_they_go() {
    for release in ALL {
        let (mut fake, truth) = image(release, false);
        let top = fake.word(truth.main + release.bins - 16).unwrap();
        for mapping in &mut fake.mappings {
            match mapping {
                main if main.name == "[heap]" => main.to = (top / PAGE - 2) * PAGE,
                thread if thread.from == THREAD_HEAPS[1] => thread.to = thread.from + PAGE,
                _ => {}
            }
        }
        let of_main = top - (top / PAGE - 2) * PAGE;
        let of_thread = release.heap_header + 0x1230 - PAGE;
        let walk = read(&fake).expect("it has an arena").unwrap().walk;
        assert_eq!((walk.breaks, walk.skipped), (0, 0), "2.{}", release.since);
        assert_eq!((walk.live, walk.blocks), (truth.live - of_main - of_thread, truth.blocks), "2.{}", release.since);
        let regions = || walk.layout.regions();
        assert!(regions().all(|(_, to, _)| fake.mapping(to - 1).is_some()), "no page that is not known to be there");
        // What has grown was not walked, and does not count as found. It does not make the heap doubtful.
        let missing: Vec<u64> = walk.checks.iter().map(|check| check.wanted - check.found).collect();
        assert_eq!(
            missing[..2],
            [HEAP + HEAP_BYTES - (top / PAGE - 2) * PAGE, THREAD_BYTES - PAGE],
            "2.{}",
            release.since
        );
        assert!(
            missing[2..].iter().all(|bytes| *bytes == 0) && walk.checks.iter().all(CountCheck::holds),
            "{:?}",
            walk.checks
        );
    }
}

/// Asserts that a heap is exact although some of its bytes cannot be read.
fn assert_exact(heap: &GlibcHeap, truth: &Truth, unreadable: u64) {
    let walk = &heap.walk;
    assert_eq!((walk.live, walk.blocks, walk.cached), (truth.live, truth.blocks, truth.cached));
    assert_eq!(heap.free, truth.free);
    assert_eq!((walk.breaks, walk.skipped, walk.swapped, walk.unreadable), (0, 0, 0, unreadable));
    assert!(walk.checks.iter().all(|check| check.wanted == check.found), "{:?}", walk.checks);
}

/// A stack that a program allocates has a guard at its lowest page, and a program may write-protect pages of its blocks.
#[test]
fn pages_without_rights_hide_nothing_that_is_behind_them() {
    for release in ALL {
        let page = |truth: &Truth| truth.large.next_multiple_of(PAGE) + PAGE;
        let places: [fn(&Truth) -> u64; 3] =
            [|truth| truth.large.next_multiple_of(PAGE) + PAGE, |_| THREAD_HEAPS[0] + 4 * PAGE, |_| MMAPPED + 2 * PAGE];
        for place in places {
            let (mut fake, truth) = image(release, false);
            fake.protect(place(&truth), place(&truth) + PAGE);
            assert_exact(&read(&fake).expect("it has an arena").unwrap(), &truth, PAGE);
        }
        let (mut fake, truth) = image(release, false);
        fake.guard(page(&truth));
        assert_exact(&read(&fake.done()).expect("it has an arena").unwrap(), &truth, PAGE);
        // Pages that may be read are read, and nothing is missing.
        let (mut fake, truth) = image(release, false);
        fake.protect(page(&truth), page(&truth) + PAGE);
        fake.mappings.iter_mut().for_each(|one| one.readable = true);
        assert_exact(&read(&fake).expect("it has an arena").unwrap(), &truth, 0);
    }
}

#[test]
fn blocks_on_pages_without_rights_are_missing_in_the_count_and_the_heap_is_not_known() {
    for release in ALL {
        let (mut fake, truth) = image(release, false);
        let to = truth.behind_free / PAGE * PAGE;
        fake.protect(to - 3 * PAGE, to);
        let walk = read(&fake).expect("it has an arena").unwrap().walk;
        assert_eq!((walk.breaks, walk.unreadable), (0, 3 * PAGE), "2.{}", release.since);
        assert!((2 * PAGE..5 * PAGE).contains(&walk.skipped), "{}", walk.skipped);
        let check = &walk.checks[0];
        assert_eq!((check.what.as_str(), check.wanted - check.found), ("bytes of main arena", walk.skipped));
        assert!(!check.holds(), "unwalked bytes do not count");
        let reason = walk.trust(10 * walk.skipped).unwrap_err();
        assert!(reason.contains("12288 bytes are in pages that nobody may read"), "{reason}");
    }
}

/// A piece that was cut off counts only as far as it was walked, and memory behind it that was known is no growth.
#[test]
fn bytes_that_were_not_walked_fail_the_check() {
    let release = &ALL[3];
    let (fake, truth) = image(release, false);
    let arenas = arenas::find(&fake).remove(0);
    let found = Structures::find(&fake, &arenas, release).unwrap();
    let mut memories = divide::divide(&fake, &[Some(&found)]).remove(0).unwrap();

    let walked = |memories: &Memories| Walked {
        arenas: memories.pieces.iter().map(|pieces| pieces.iter().map(|one| one.blocks.to - one.from).sum()).collect(),
        cached: truth.cached,
    };
    let holds = |memories: &Memories| {
        checks::all(&fake, &found, &found.params, memories, &walked(memories)).iter().all(CountCheck::holds)
    };
    assert!(holds(&memories));
    memories.pieces[0][0].blocks.to -= 2 * PAGE;
    assert!(!holds(&memories), "two of its pages are there and were not walked");
}

/// The JVM's memory has such words. One of them seems to be a block that overlaps a real one.
#[test]
fn words_that_are_like_a_block_with_its_own_pages_are_told_by_the_counts() {
    for release in ALL {
        let (mut fake, truth) = image(release, false);
        let pages = |count: u64| (count * PAGE - release.mmapped_short) | 2;
        fake.put(MMAPPED + 0x24 * PAGE, &[0, pages(0x20)]);
        fake.put(MMAPPED + 0x2f * PAGE, &[0, pages(1)]);
        let heap = read(&fake.done()).expect("it has an arena").unwrap();
        assert_eq!((heap.mmapped, heap.walk.live), (2, truth.live), "2.{}", release.since);
    }
}

/// A program's own thread-local variables are between the thread pointer and those of the C library.
#[test]
fn a_thread_cache_is_found_behind_a_programs_own_variables() {
    let release = &ALL[3];
    for bytes in [60 << 10, 72 << 10, 3 << 20] {
        let (mut fake, truth) = image(release, false);
        let cache = truth.list - (release.cache.bins * release.cache.count + 8 * 3);
        let thread = 0x7f30_0000_0000_u64 + (8 << 20) - 0x800;
        fake.map(0x7f30_0000_0000, 8 << 20, true, 0, "");
        fake.put(thread, &[thread, 0, thread]);
        fake.put(thread - bytes - 0x48, &[cache]);
        fake.threads[0].pointer = Some(thread);
        let walk = read(&fake.done()).expect("it has an arena").unwrap().walk;
        assert_eq!((walk.cached, walk.breaks), (truth.cached, 0), "{bytes}");
    }
}

#[test]
fn a_heap_without_bytes_has_no_end() {
    let release = &ALL[3];
    let (mut fake, truth) = image(release, false);
    let [first, last] = THREAD_HEAPS;
    fake.put(last + 16, &[0]);
    fake.put(first + release.heap_header + release.bins - 16, &[last + release.heap_header]);
    let heap = read(&fake.done()).expect("it has an arena").unwrap();
    assert!(heap.walk.breaks > 0);
    assert_eq!((heap.free[0], heap.free[1].bytes), (truth.free[0], 0));
}

#[test]
fn of_several_walks_the_least_doubtful_one_is_kept() {
    let with_breaks = |count: u64| {
        let (mut fake, truth) = image(&ALL[3], false);
        (0..count).for_each(|at| fake.put(truth.behind_free + 8 + 0x120 * at, &[0x7777_7770]));
        fake
    };
    let kept = |breaks: &[u64]| {
        let mut next = breaks.iter();
        let walked = best_of(3, || next.next().map(|&count| with_breaks(count)).ok_or("it has ended")).unwrap();
        (walked.walks[0].as_ref().unwrap().skipped, next.len())
    };
    let one = kept(&[1]).0;
    assert!(one > 0);
    assert_eq!(kept(&[1, 0, 1]), (0, 1));
    assert_eq!(kept(&[2, 1, 2, 0]), (one, 1));
}

#[test]
fn a_walk_whose_time_is_over_ends_and_is_never_taken_for_a_whole_one() {
    let (fake, truth) = image(&ALL[3], false);
    let (mut found, mut whole) = (0, false);
    for reads in 0.. {
        fake.end_after(reads);
        if let Some(Ok(heap)) = read(&fake) {
            found += 1;
            whole = !fake.is_late();
            let right = (heap.walk.live, heap.walk.cached) == (truth.live, truth.cached);
            assert!(right || heap.walk.breaks > 0 || heap.walk.checks.iter().any(|check| !check.holds()), "{reads}");
        }
        if whole {
            break;
        }
    }
    assert!(found > 10, "{found}");
}

#[test]
fn swapped_pages_are_counted_and_not_known() {
    let (mut fake, truth) = image(&ALL[3], false);
    let page = truth.behind_free / PAGE * PAGE;
    fake.swap_out(page);
    let walk = read(&fake.done()).expect("it has an arena").unwrap().walk;
    assert_eq!(walk.swapped, PAGE);
    assert!(walk.skipped > 0 && walk.skipped < 2 * PAGE, "{}", walk.skipped);
    assert!(walk.trust(10 * walk.skipped).unwrap_err().contains("in swap"));
}

#[test]
fn fuzz_a_damaged_heap_is_read_right_or_with_a_warning() {
    let release = (0..ALL.len(), any::<bool>());
    fuzz::holds(1000, 5, (release, damage()), |((release, fixed), damage)| {
        walk_damaged(&WALKER, image(&ALL[release], fixed).0, damage);
    });
}

/// A heap whose mmapped blocks go after so many reads.
struct Falling {
    before: FakeMemory,
    after: FakeMemory,
    reads: Cell<u64>,
}

impl Memory for Falling {
    fn machine(&self) -> Machine {
        self.before.machine()
    }

    fn mappings(&self) -> &[Mapping] {
        self.before.mappings()
    }

    fn threads(&self) -> &[ThreadId] {
        self.before.threads()
    }

    fn pages(&self) -> &PageStates {
        self.before.pages()
    }

    fn fact(&self, mapping: &Mapping, fact: Fact) -> Option<Option<u64>> {
        self.before.fact(mapping, fact)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let left = self.reads.get();
        self.reads.set(left.saturating_sub(1));
        if left > 0 { self.before.read(at, into) } else { self.after.read(at, into) }
    }
}

#[test]
fn blocks_that_lose_their_own_pages_while_they_are_counted_are_not_known() {
    let release = &ALL[3];
    let changed = || {
        let (mut fake, truth) = image(release, false);
        fake.put(truth.params - 16, &[0]);
        fake.write(truth.params - release.n_mmaps, &0_u32.to_le_bytes());
        [0, 0x30].iter().for_each(|page| fake.put(MMAPPED + page * PAGE, &[0, 0]));
        fake.done()
    };
    let (before, truth) = image(release, false);
    let mut memory = Falling { before, after: changed(), reads: Cell::new(u64::MAX) };
    read(&memory).expect("it has an arena").unwrap();
    let all = u64::MAX - memory.reads.get();
    // For each read after which they went, if they were counted: whether the heap is known.
    let mut counted = Vec::new();
    for reads in 0..=all {
        memory.reads = Cell::new(reads);
        let Some(Ok(heap)) = read(&memory) else { continue };
        let is_over = |check: &CountCheck| check.what == "mmapped blocks" && check.wanted == 0;
        if heap.walk.live == truth.live && heap.walk.checks.iter().any(is_over) {
            counted.push(heap.walk.trust(1 << 30).is_ok());
        }
    }
    // Those that went behind the walk of the arenas are in none.
    let walked = counted.iter().take_while(|is_known| !**is_known).count();
    assert!(walked > 20 && counted[walked..].len() < 5 && counted[walked..].iter().all(|known| *known), "{counted:?}");
}
