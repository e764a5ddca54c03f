//! Programs whose threads allocate and free all the time are read while they do that.

use std::path::Path;
use std::process::Command;

use allocanary_testing::programs::{Running, compiled};
use allocanary_testing::skipped::skipped;
use serde_json::Value;
use tempfile::tempdir;

use super::preloads::preload;
use super::support::{allocanary, words};

/// How many readings of each program.
const READINGS: usize = 3;

/// A reading, or `None` if another process may not be read here.
fn reading(pid: u32) -> Option<Value> {
    let ran = allocanary(Path::new("/"), words(&format!("heap {pid} --json")));
    if ran.err.contains("may not be read") {
        skipped("another process may not be read here: kernel.yama.ptrace_scope, or a container");
        return None;
    }
    Some(serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}")))
}

/// The live bytes of all heaps.
fn live(reading: &Value) -> u64 {
    reading["heaps"].as_array().unwrap().iter().map(|heap| heap["allocated_bytes"].as_u64().unwrap()).sum()
}

/// The threads replace blocks by others of the same size: they have as many live bytes all the time.
#[test]
fn what_is_shown_of_a_busy_heap_is_right_within_what_is_told() {
    let folder = tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/heap/known.c");
    let Some(program) = compiled(&source, folder.path(), &["-ldl"]) else { return };
    for allocator in ["jemalloc", "mimalloc"] {
        let mut running = Running::start(Command::new(&program).arg("threads").env("LD_PRELOAD", preload(allocator)));
        running.counts();
        let Some(before) = reading(running.pid()) else { return };
        running.go_on("build");
        let wanted = running.counts()["live"] + live(&before);
        running.go_on("busy");
        running.counts();
        let mut told = 0;
        for _ in 0..READINGS {
            let reading = reading(running.pid()).unwrap();
            let heap = reading["heaps"].as_array().unwrap().iter().find(|heap| heap["allocator"] == allocator);
            let of_heap = heap.map(|heap| (&heap["sure"], &heap["copied"]["within_bytes"]));
            let within = match of_heap {
                Some((sure, within)) if sure != "not_known" => within.as_u64().unwrap_or(wanted / 50),
                _ => {
                    let problems = reading["problems"].as_array().unwrap();
                    assert!(problems.iter().any(|one| one.as_str().unwrap().contains(allocator)), "{problems:?}");
                    continue;
                }
            };
            told += 1;
            let found = live(&reading);
            assert!(found.abs_diff(wanted) <= within, "{allocator}: {found} of {wanted} live bytes, {of_heap:?}");
        }
        assert!(told > 0, "{allocator}: of {READINGS} readings none could be divided");
    }
}
