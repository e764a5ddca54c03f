//! Compares a core file with the process that it was written from: whole, truncated, and without the mapped files. The
//! core has the notes that the kernel writes.

#![allow(clippy::disallowed_methods)]

mod running;

use std::fs;
use std::path::Path;
use std::time::Duration;

use allocanary_heap::{CoreFile, LiveProcess, Memory, PartsCertainty, take_core};
use allocanary_testing::core;
use allocanary_walkers::system as glibc;
use running::{compiled, start};

const PAGE: usize = 4096;

/// Writes a core of a waiting process. `renamed` is put before the paths of mapped files.
fn write(live: &LiveProcess, path: &Path, renamed: &str) {
    let threads: Vec<(u32, u64)> =
        live.threads().iter().map(|one| (one.tid, one.pointer.unwrap_or_default())).collect();
    fs::write(path, core::of(live.pid(), "counts", &threads, renamed)).unwrap();
}

#[test]
fn a_core_has_the_heap_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [&[][..], &["-static"]] {
        let Some(program) = compiled(folder.path(), "counts", flags) else { return };
        let mut running = start(&program, "half", "");
        let wanted = running.counts();
        let live = LiveProcess::open(running.pid()).unwrap();
        let path = folder.path().join("core");
        let mut forecast = 0;
        // Once with the mapped files, and once without: then only the structures show the release.
        for renamed in ["", "/nowhere"] {
            write(&live, &path, renamed);
            let core = CoreFile::open(&path, None).unwrap();
            assert_eq!((core.pid, core.name.as_str(), core.missing), (running.pid(), "counts", 0));
            let heap = glibc::read(&core).expect("it has glibc's malloc").unwrap();
            let free: u64 = heap.free.iter().map(|free| free.bytes).sum();
            assert_eq!((free, heap.walk.breaks, heap.walk.skipped), (wanted["fordblks"], 0, 0));
            let reading = take_core(&path, Duration::MAX).unwrap();
            assert_eq!(reading.heaps[0].sure, PartsCertainty::Exact, "{:?}", reading.problems);
            assert!(reading.heaps[0].parts.sum() <= wanted["arena"], "pages full of zeroes do not count");
            forecast = reading.heaps[0].remedies[0].bytes;
        }
        // A core does not say where the data segment ends. So the free block at its end is not in the forecast.
        running.go_on("");
        let given = running.counts()["given"];
        assert!(0 < forecast && forecast <= given, "{forecast} {given}");
    }
}

#[test]
fn a_truncated_core_tells_what_is_missing_and_divides_no_heap_that_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "counts", &[]) else { return };
    let mut running = start(&program, "half", "");
    running.counts();
    let path = folder.path().join("core");
    write(&LiveProcess::open(running.pid()).unwrap(), &path, "");
    let whole = fs::read(&path).unwrap();
    for (part, has_heap) in [(whole.len() - 3 * PAGE, true), (whole.len() / 2, false), (4 * PAGE, false)] {
        fs::write(&path, &whole[..part]).unwrap();
        let reading = take_core(&path, Duration::MAX).unwrap();
        assert!(reading.problems.iter().any(|why| why.contains("the core is truncated")), "{:?}", reading.problems);
        let is_divided = reading.heaps.iter().any(|heap| heap.sure != PartsCertainty::NotKnown);
        assert_eq!(is_divided, has_heap, "{part}: {:?}", reading.problems);
    }
    for part in [0, 10, 64, 200] {
        fs::write(&path, &whole[..part]).unwrap();
        assert!(take_core(&path, Duration::MAX).is_err(), "{part}");
    }
}
