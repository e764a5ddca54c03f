//! Programs with musl's malloc that know their live blocks, read from outside: not a byte differs. `musl-gcc` is in Debian's musl-tools.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_heap::{LiveProcess, Walk, walk_all};
use allocanary_testing::programs::Running;
use allocanary_testing::skipped::skipped;

const NAME: &str = "musl's malloc";

/// Compiles it, if there is a compiler for musl.
fn compiled(folder: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/heap/known.c");
    let program = folder.join(name);
    let mut command = Command::new("musl-gcc");
    let made = command.args(["-O1", "-pthread", "-o"]).arg(&program).args(flags).arg(&source).status();
    match made {
        Ok(status) => assert!(status.success(), "{} was not compiled", source.display()),
        Err(error) => {
            skipped(format_args!("musl-gcc: {error}"));
            return None;
        }
    }
    Some(program)
}

#[test]
fn every_live_byte_is_found_in_programs_with_musl() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, flags) in
        [("dynamic", ["-s"].as_slice()), ("static", &["-static", "-s"]), ("pie", &["-static-pie", "-s"])]
    {
        let Some(program) = compiled(folder.path(), kind, flags) else { return };
        for case in ["half", "threads", "mmaps", "blocked"] {
            let mut running = Running::start(Command::new(&program).arg(case));
            running.counts();
            let before = walk(running.pid());
            running.go_on("build");
            let wanted = running.counts();
            let walk = walk(running.pid());
            let what = format!("{kind}, {case}");
            let found = (walk.live - before.live, walk.blocks - before.blocks);
            assert_eq!(found, (wanted["live"], wanted["blocks"]), "{what}");
            assert_eq!((walk.breaks, walk.skipped, walk.moved, walk.layout.astray()), (0, 0, 0, 0), "{what}");
            assert!(walk.checks.iter().all(|check| check.wanted == check.found), "{what}: {:?}", walk.checks);
        }
    }
}

fn walk(pid: u32) -> Walk {
    let walks = walk_all(&LiveProcess::open(pid).unwrap()).into_iter();
    { walks }.filter_map(Result::ok).find(|walk| walk.allocator == NAME).expect("a walk")
}
