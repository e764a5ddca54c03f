//! Debian's libraries of other allocators are preloaded into a program that knows its live blocks. It is read from
//! outside: not one byte may differ.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

use std::path::Path;
use std::process::Command;

use allocanary_heap::{LiveProcess, Walk, walk_all};
use allocanary_testing::programs::{Running, compiled};
use allocanary_testing::skipped::skipped;

/// The allocators, each with its library. Each release of Debian has other versions.
const LIBRARIES: &[(&str, &str)] = &[
    ("jemalloc", "libjemalloc.so.2"),
    ("mimalloc", "libmimalloc.so.2.0"),
    ("tcmalloc", "libtcmalloc_minimal.so.4"),
    ("tcmalloc", "libtcmalloc.so.4"),
];

#[test]
fn every_live_byte_is_found_in_debians_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/heap/known.c");
    let Some(program) = compiled(&source, folder.path(), &["-ldl"]) else { return };
    for (allocator, library) in LIBRARIES {
        let library = Path::new("/usr/lib/x86_64-linux-gnu").join(library);
        if !library.exists() {
            skipped(format_args!("{} is not installed", library.display()));
            continue;
        }
        for case in ["half", "threads"] {
            let mut running = Running::start(Command::new(&program).arg(case).env("LD_PRELOAD", &library));
            running.counts();
            let before = walk(allocator, running.pid());
            running.go_on("build");
            let wanted = running.counts();
            let walk = walk(allocator, running.pid());
            let what = format!("{}, {case}", library.display());
            let found = (walk.live - before.live, walk.blocks - before.blocks);
            assert_eq!(found, (wanted["live"], wanted["blocks"]), "{what}");
            assert_eq!((walk.breaks, walk.skipped, walk.layout.astray()), (0, 0, 0), "{what}");
            assert!(walk.checks.iter().all(|check| check.holds()), "{what}: {:?}", walk.checks);
        }
    }
}

fn walk(allocator: &str, pid: u32) -> Walk {
    let walks = walk_all(&LiveProcess::open(pid).unwrap()).into_iter().filter_map(Result::ok);
    { walks }.find(|walk| walk.allocator == allocator).expect("a walk")
}
