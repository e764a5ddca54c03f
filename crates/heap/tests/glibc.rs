//! Compares glibc's heaps with glibc's own counts: programs whose heaps do not change are read from outside. All
//! figures must be equal.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

mod mallinfo;
mod running;

use std::time::Duration;

use allocanary_heap::{LiveProcess, Memory, PAGE, Parts, PartsCertainty, ReadMode, take};
use allocanary_testing::skipped::skipped;
use allocanary_walkers::system::{self as glibc, GlibcHeap};
use running::{compiled, start};

/// In this order: few live blocks, half of the blocks live, threads with their own arenas, blocks with their own pages,
/// a data segment that cannot grow, one whose last piece of other memory has become free, memory that the program
/// itself takes with `sbrk`, and aligned blocks.
const CASES: &[&str] = &["one", "half", "threads", "mmaps", "blocked", "emptied", "foreign", "aligned"];

/// Pages inside of blocks from which the program has taken rights: the right to write, all rights, in threads' arenas too, and where the
/// data segment cannot grow.
const CLOSED: &[&str] = &["closed", "closed_all", "closed_threads", "closed_blocked"];

#[test]
fn every_figure_of_a_program_is_glibcs_own() {
    compare_all(&[], "", CASES);
}

#[test]
fn every_figure_of_a_static_program_is_glibcs_own() {
    compare_all(&["-static"], "", CASES);
}

#[test]
fn every_figure_of_a_program_with_huge_pages_is_glibcs_own() {
    for tunables in ["glibc.malloc.hugetlb=1", "glibc.malloc.hugetlb=2"] {
        compare_all(&[], tunables, &["one", "threads"]);
    }
}

#[test]
fn pages_without_rights_hide_no_figure() {
    compare_all(&[], "", CLOSED);
}

#[test]
fn guards_hide_no_figure_and_their_bytes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "counts", &[]) else { return };
    if start(&program, "closed_guards", "").counts().contains_key("missing") {
        return skipped("the kernel has no guards (before 6.13)");
    }
    compare_all(&[], "", &["closed_guards"]);
    // 64 stacks with a guard each, and three blocks with a page that nobody may read; with guards, 64 more.
    for (case, pages) in [("closed_all", 67), ("closed_guards", 131)] {
        let mut running = start(&program, case, "");
        running.counts();
        let reading = take(running.pid(), ReadMode::Running, Duration::MAX).unwrap();
        let heap = &reading.heaps[0];
        assert_eq!(
            (heap.sure, heap.unreadable, heap.swapped, heap.skipped),
            (PartsCertainty::Exact, pages * PAGE, 0, 0),
            "{case}"
        );
        assert_eq!(reading.problems, [""; 0], "{case}");
    }
}

fn compare_all(flags: &[&str], tunables: &str, cases: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "counts", flags) else { return };
    for case in cases {
        let mut running = start(&program, case, tunables);
        let wanted = running.counts();
        let live = LiveProcess::open(running.pid()).unwrap();
        let heap = glibc::read(&live).expect("it has glibc's malloc").unwrap();
        assert_eq!(mallinfo::counts(&heap), wanted, "{case}");
        assert_eq!((heap.walk.breaks, heap.walk.skipped, heap.walk.layout.astray()), (0, 0, 0), "{case}");
        for check in &heap.walk.checks {
            assert_eq!(check.found, check.wanted, "{case}: {}", check.what);
        }
        let arenas = heap.walk.arenas.len() as u32;
        let mut all = Parts::default();
        heap.walk.layout.parts(live.pages(), arenas).into_iter().for_each(|parts| all += parts);
        let resident: u64 = heap.walk.layout.regions().map(|(from, to, _)| live.pages().resident(from, to)).sum();
        assert_eq!(all.sum(), resident, "{case}");
        running.go_on("");
        assert_eq!(running.counts()["given"], heap.walk.forecasts[0].bytes, "{case}: what a trim gives back");
    }
}

/// `/proc/PID` shows a zombie without memory then, and its threads go on.
#[test]
fn a_process_whose_first_thread_has_ended_is_read_through_another() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "counts", &[]) else { return };
    let mut running = start(&program, "dead_leader", "");
    let (wanted, pid) = (running.counts(), running.pid());
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    let heap = glibc::read(&LiveProcess::open(pid).unwrap()).expect("it has glibc's malloc").unwrap();
    assert_eq!(mallinfo::counts(&heap), wanted);
    let reading = take(pid, ReadMode::Running, Duration::MAX).unwrap();
    assert_eq!((reading.process.pid, reading.heaps[0].sure), (pid, PartsCertainty::Exact), "{:?}", reading.problems);
    assert!(reading.process.raw_file() == "counts" && reading.heaps[0].live > 500_000);
    assert!(!reading.heaps[0].version.contains("by its structures"), "the files of its mappings are found");
}

/// `dlmopen` and LD_AUDIT load a C library into a name space of its own, with a heap of its own.
#[test]
fn every_figure_of_each_c_library_of_a_process_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "copies", &["-ldl"]) else { return };
    for case in ["plain", "threads", "blocked"] {
        let mut running = start(&program, case, "");
        let [own, small, large] = [running.counts(), running.counts(), running.counts()];
        let live = LiveProcess::open(running.pid()).unwrap();
        let heaps: Vec<GlibcHeap> = glibc::read_all(&live).into_iter().map(Result::unwrap).collect();
        assert_eq!(heaps.iter().map(mallinfo::counts).collect::<Vec<_>>(), [own, large, small], "{case}");
        assert_eq!(heaps.iter().map(|one| one.walk.name()).collect::<Vec<_>>(), ["glibc", "2nd glibc", "3rd glibc"]);
        for walk in heaps.iter().map(|one| &one.walk) {
            let what = format!("{case}: {}", walk.name());
            assert_eq!((walk.breaks, walk.skipped, walk.layout.astray()), (0, 0, 0), "{what}");
            assert!(walk.checks.iter().all(|check| check.wanted == check.found), "{what}: {:?}", walk.checks);
        }
        let has_forecast = heaps.iter().map(|one| !one.walk.forecasts.is_empty()).collect::<Vec<_>>();
        assert_eq!(has_forecast, [true, false, false], "give-back calls the program's own");
        let reading = take(running.pid(), ReadMode::Running, Duration::MAX).unwrap();
        let names: Vec<&str> = reading.heaps.iter().map(|heap| heap.allocator.as_str()).collect();
        assert!(["glibc", "2nd glibc", "3rd glibc"].iter().all(|name| names.contains(name)), "{names:?}");
        assert!(
            reading.heaps.iter().all(|heap| heap.sure == PartsCertainty::Exact) && reading.problems.is_empty(),
            "{case}"
        );
    }
}
