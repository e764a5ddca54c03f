//! Tests of readings, with memory that the test lays out.

use super::*;
use crate::{BlockKind, Difference, Forecast, HeapArena, Layout, Sort, answer, rows, together};
use allocanary_walkers::fake::FakeMemory;

const MAPS: &str = "1000000-1100000 rw-p 0 00:0 0 [heap]\n2000000-2040000 rw-p 0 00:0 0 \n\
                    400000-410000 r-xp 0 00:1 7 /bin/a\n7ffc0000-7ffc4000 rw-p 0 00:0 0 [stack]\n";

fn subject() -> ProcessSubject {
    ProcessSubject {
        pid: 7,
        name: "a".into(),
        executable: "/bin/a".into(),
        started: 100,
        threads: 2,
        ..ProcessSubject::default()
    }
}

/// A heap of 1 MiB: a quarter is live, in a quarter free and live blocks alternate, and half is free pages.
fn walk() -> Walk {
    let memory = FakeMemory::of(MAPS);
    let mut layout = Layout::default();
    layout.region(&memory.pages, 0x1000000, 0x1080000, 0);
    layout.region(&memory.pages, 0x1080000, 0x1100000, 1);
    layout.block(0x1000000, 0x40000, BlockKind::Live);
    (0..0x40).for_each(|page| layout.block(0x1080000 + page * PAGE, 0x400, BlockKind::Live));
    Walk {
        allocator: "glibc",
        copy: 1,
        version: "2.36".into(),
        layout,
        arenas: ["main", "thread arena 1", "unused"]
            .map(|name| HeapArena { name: name.into(), ..HeapArena::default() })
            .into(),
        live: 0x50000,
        blocks: 65,
        cached: 0,
        breaks: 0,
        skipped: 0,
        moved: 0,
        swapped: 0,
        unreadable: 0,
        checks: vec![CountCheck { what: "mmapped blocks".into(), wanted: 0, found: 0, tolerance: 0 }],
        forecasts: vec![Forecast { remedy: "malloc_trim(0)", bytes: 0x7f000, at_most: false }],
        copied: None,
        late: None,
    }
}

fn reading_of(walks: Vec<Result<Walk, Unknown>>, change: impl Fn(&mut Vec<MappingCount>)) -> Reading {
    let memory = FakeMemory::of(MAPS);
    let mut counted = crate::counted::counted_of(&memory);
    change(&mut counted);
    let kernel = KernelCounts { resident: counted.iter().map(|one| one.resident).sum(), ..KernelCounts::default() };
    Reading::of(subject(), 200_000, kernel, &counted, &memory, walks)
}

fn sum(reading: &Reading) -> u64 {
    let parts: u64 = rows(reading).iter().map(|row| row.resident).sum();
    let areas: u64 = reading.areas.iter().map(|area| area.resident).sum();
    assert_eq!(parts, reading.heaps.iter().map(|heap| heap.parts.sum()).sum::<u64>() + areas);
    parts
}

#[test]
fn the_parts_add_up_to_what_is_resident() {
    let reading = reading_of(vec![Ok(walk())], |_| {});
    assert_eq!((sum(&reading), reading.resident), (0x154000, 0x154000));
    assert_eq!(reading.parts().sum(), reading.resident);
    let of = |reading: &Reading| {
        [Part::OwnMappings, Part::Stacks, Part::Files, Part::Unknown].map(|part| reading.parts().of(part))
    };
    assert_eq!(of(&reading), [0x40000, 0x4000, 0x10000, 0]);
    // A heap that was not found may be there.
    let problems = vec!["tcmalloc: no table".to_string()];
    assert_eq!(of(&Reading { problems, ..reading.clone() }), [0, 0x4000, 0x10000, 0x40000]);
    assert_eq!(reading.kernel.resident, reading.resident);
    let heap = &reading.heaps[0];
    let of = |part| heap.parts.of(part);
    assert_eq!((of(Part::Live), of(Part::Fragmentation), of(Part::FreePages)), (0x50000, 0x30000, 0x80000));
    assert_eq!((heap.sure, heap.resident, heap.share), (PartsCertainty::Exact, 0x100000, Some(0x80000)));
    let arenas: Vec<(&str, u64)> = heap.arenas.iter().map(|arena| (arena.name.as_str(), arena.resident)).collect();
    assert_eq!(arenas, [("main", 0x80000), ("thread arena 1", 0x80000)], "an arena without memory is left out");
    assert_eq!(heap.live_in_a_page.iter().sum::<u64>(), 0x100);
    let unknown = reading.areas.iter().find(|area| area.sort == Sort::Unknown).unwrap();
    assert_eq!(unknown.resident, 0x40000);
    let map: u64 = heap.map.stretches.iter().map(|stretch| stretch.parts.sum()).sum();
    assert_eq!(map, heap.resident);
    assert!(reading.is_divided());
}

#[test]
fn a_heap_that_cannot_be_trusted_is_one_part_and_the_reason_is_told() {
    let wrong = CountCheck { what: "mmapped blocks".into(), wanted: 3, found: 0, tolerance: 0 };
    let reading = reading_of(vec![Ok(Walk { checks: vec![wrong], ..walk() })], |_| {});
    let heap = &reading.heaps[0];
    assert_eq!((heap.sure, heap.parts.of(Part::Unknown), heap.arenas.len()), (PartsCertainty::NotKnown, 0x100000, 0));
    assert_eq!(sum(&reading), 0x154000);
    assert!(reading.problems[0].contains("glibc 2.36: heap not analysed: mmapped blocks: the allocator counts 3"));
    assert!(!reading.is_divided() && answer::answer(&reading).contains("1.0 MiB heap of glibc, not analysed"));
}

#[test]
fn a_walk_that_was_not_done_in_its_time_is_one_part_and_what_it_met_is_told() {
    let reading = reading_of(vec![Ok(Walk { late: Some(std::time::Duration::from_secs(2)), ..walk() })], |_| {});
    assert_eq!((reading.heaps[0].sure, sum(&reading)), (PartsCertainty::NotKnown, 0x154000));
    let wanted = "not be read to its end within 2 s: 65 live blocks of 327680 bytes were met until then";
    assert!(reading.problems[0].contains(wanted), "{:?}", reading.problems);
}

#[test]
fn a_heap_that_was_copied_is_divided_and_by_how_much_it_may_be_off_is_told() {
    let copied = crate::CopyMoment { taken: 1_764_404_804_123_456, took: 95, within: 10 << 10 };
    let mut walk = Walk { copied: Some(copied), ..walk() };
    walk.layout.spread(FakeMemory::of(MAPS).pages(), 0x1040000..0x1080000, 0x10000);
    let reading = reading_of(vec![Ok(walk)], |_| {});
    let heap = &reading.heaps[0];
    assert_eq!((heap.sure, sum(&reading), reading.is_divided()), (PartsCertainty::Close, 0x154000, true));
    assert_eq!((heap.parts.of(Part::Live), heap.parts.of(Part::Unknown)), (0x60000, 0x30000));
    assert!(heap.live_in_a_page.is_empty() && reading.problems.is_empty());
    let json = serde_json::to_string(&reading).unwrap();
    let wanted =
        r#""copied":{"taken_timestamp_seconds":1764404804.123456,"copy_seconds":0.000095,"within_bytes":10240}"#;
    assert!(json.contains(wanted), "{json}");
    assert_eq!(serde_json::from_str::<Reading>(&json).unwrap(), reading);
    let answer = answer::answer(&reading);
    assert!(answer.contains("0.4 MiB live (± 10.0 KiB)"), "{answer}");
    assert!(answer.contains(" MiB free or cached in pages of glibc"), "{answer}");
    let sure = answer::how_sure(heap);
    assert!(
        sure.contains("one copy of its structures, which took 95.0 us, and they are right within 10.0 KiB."),
        "{sure}"
    );
    assert!(sure.contains("not what is fragmentation. --freeze stops the process"), "{sure}");
}

#[test]
fn a_copy_that_may_be_off_by_more_than_a_tenth_is_not_shown() {
    let copied = |within| crate::CopyMoment { taken: 0, took: 95, within };
    let problems = |within| reading_of(vec![Ok(Walk { copied: Some(copied(within)), ..walk() })], |_| {}).problems;
    assert!(problems(0x50000 / 10).is_empty());
    let problem = problems(0x50000 / 10 + 1).remove(0);
    assert!(
        problem.contains("in 95 us: 327680 live bytes were met, and 32769 more or fewer are possible"),
        "{problem}"
    );
}

#[test]
fn no_page_counts_for_two_heaps() {
    let reading = reading_of(vec![Ok(walk()), Ok(Walk { allocator: "jemalloc", ..walk() })], |_| {});
    assert_eq!(sum(&reading), 0x154000);
    let second = reading.heaps.iter().find(|heap| heap.allocator == "jemalloc").unwrap();
    assert_eq!((second.sure, second.resident, second.share), (PartsCertainty::NotKnown, 0, Some(0)));
    assert!(reading.problems[0].contains("another heap's as well"));
}

#[test]
fn an_allocator_without_a_layout_is_told() {
    let unknown = Unknown { allocator: "tcmalloc", reason: "no table".into() };
    let reading = reading_of(vec![Err(unknown)], |_| {});
    assert_eq!((reading.heaps.len(), reading.problems[0].as_str()), (0, "tcmalloc: heap not analysed: no table"));
    assert_eq!(reading.allocators().collect::<Vec<_>>(), [("tcmalloc", false)]);
    assert!(answer::answer(&reading).contains("1.2 MiB not known (tcmalloc is in the process, not analysed)"));
    assert_eq!(sum(&reading), 0x154000);
}

#[test]
fn lazily_freed_memory_is_of_the_whole_free_pages() {
    let reading = reading_of(vec![Ok(walk())], |counted| counted[0].lazy = Some(0x10000));
    let heap = &reading.heaps[0];
    assert_eq!((heap.parts.of(Part::LazyFree), heap.parts.of(Part::FreePages)), (0x10000, 0x70000));
    let mut arenas = Parts::default();
    heap.arenas.iter().for_each(|arena| arenas += arena.parts);
    assert_eq!(arenas, heap.parts);
    let more = reading_of(vec![Ok(walk())], |counted| counted[0].lazy = Some(0x100000));
    assert_eq!(more.heaps[0].parts.of(Part::FreePages), 0);
    assert_eq!(sum(&more), 0x154000);
}

#[test]
fn the_answer_is_one_sentence() {
    let reading = reading_of(vec![Ok(walk())], |_| {});
    let wanted = "1.3 MiB resident: 0.5 MiB free pages, 0.3 MiB live, 0.2 MiB own mappings, 0.2 MiB fragmentation, 0.1 MiB program and \
                  libraries";
    assert_eq!(answer::answer(&reading), wanted);
    let sure = answer::how_sure(&reading.heaps[0]);
    assert_eq!(sure, "heap of glibc 2.36: exact. No block was wrong; its one count agrees with the allocator's own");
    let mut close = reading.heaps[0].clone();
    close.checks[0].found = 1;
    close.breaks = 2;
    close.skipped = 48;
    close.sure = PartsCertainty::Close;
    let wanted = "heap of glibc 2.36: close. It changed while it was read: in 2 places a block was wrong, and 48 B were skipped; \
                  0 of 1 counts agree with the allocator's own; mmapped blocks 1, and the allocator counts 0";
    assert_eq!(answer::how_sure(&close), wanted);
    let closed = crate::Heap { unreadable: 8192, ..reading.heaps[0].clone() };
    let wanted = "heap of glibc 2.36: exact. No block was wrong; the program itself may not read 8.00 KiB of it (guards of stacks, or \
                  mprotect); its one count agrees with the allocator's own";
    assert_eq!(answer::how_sure(&closed), wanted);
    let unread = crate::Heap { skipped: 4096, sure: PartsCertainty::Close, ..reading.heaps[0].clone() };
    assert!(
        answer::how_sure(&unread)
            .contains("close. No block was wrong; 4.00 KiB could not be read, and what is there is not known;")
    );
}

#[test]
fn bytes_that_could_not_be_read_make_it_not_exact() {
    let sure = |skipped| reading_of(vec![Ok(Walk { skipped, ..walk() })], |_| {}).heaps[0].sure;
    assert_eq!((sure(0), sure(16)), (PartsCertainty::Exact, PartsCertainty::Close));
}

#[test]
fn processes_together_count_a_shared_page_once() {
    let reading = reading_of(vec![Ok(walk())], |_| {});
    let rows = together(&[reading.clone(), reading.clone()]);
    let live = rows.iter().find(|row| row.name == "live").unwrap();
    assert_eq!((live.resident, live.share), (0xa0000, Some(0x50000)), "each has half of every page");
    assert_eq!(rows.iter().map(|row| row.share).sum::<Option<u64>>(), Some(reading.resident));
}

#[test]
fn a_share_that_was_not_read_is_not_known_and_not_saved() {
    let reading = reading_of(vec![Ok(walk())], |counted| counted[0].share = None);
    assert_eq!((reading.heaps[0].share, reading.kernel.share), (None, None));
    let live = together(&[reading.clone(), reading.clone()]).into_iter().find(|row| row.name == "live").unwrap();
    assert_eq!((live.resident, live.share), (0xa0000, None));
    let text = serde_json::to_string(&reading).unwrap();
    assert_eq!(serde_json::from_str::<Reading>(&text).unwrap(), reading);
    assert!(text.contains("\"anonymous_bytes\"") && !text.contains("\"pss_bytes\":null"), "{text}");
}

#[test]
fn what_grew_is_live_or_overhead() {
    let before = reading_of(vec![Ok(walk())], |_| {});
    let grown = |kind| {
        let mut walk = walk();
        walk.layout.region(&FakeMemory::of(MAPS).pages, 0x2000000, 0x2040000, 1);
        walk.layout.block(0x2000000, 0x40000, kind);
        Difference::of(&before, &reading_of(vec![Ok(walk)], |_| {}))
    };
    let live = grown(BlockKind::Live);
    assert_eq!((live.live, live.overhead, live.rest, live.is_same), (0x40000, 0, -0x40000, true));
    assert_eq!((live.rows[0].name.as_str(), live.rows[0].by()), ("glibc: live", 0x40000));
    assert_eq!(grown(BlockKind::Cached).overhead, 0x40000);
    let mut more = before.clone();
    more.resident += 0x40000;
    more.heaps[0].parts.add(Part::FreePages, 0x40000);
    let said = Difference::of(&before, &more).answer();
    assert!(said.starts_with("+256 KiB resident: 1.33 MiB before, 1.58 MiB after; "), "{said}");
    assert!(said.ends_with("what grew is overhead: the program has freed it"), "{said}");
}

#[test]
fn a_saved_reading_is_read_again() {
    let reading = reading_of(vec![Ok(walk())], |_| {});
    let text = serde_json::to_string(&reading).unwrap();
    let again: Reading = serde_json::from_str(&text).unwrap();
    assert_eq!(again, reading);
    let later = text.replacen("\"live\":", "\"alive\":", 1);
    assert!(serde_json::from_str::<Reading>(&later).unwrap_err().to_string().contains("no part `alive`"));
}
