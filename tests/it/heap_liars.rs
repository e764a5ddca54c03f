//! `allocanary heap` of processes whose memory looks like something else. Whatever a process contains, reading it costs limited time and
//! memory, and gives one line.

use std::path::Path;
use std::process::Command;

use allocanary_testing::programs::{Running, compiled};
use allocanary_testing::skipped::skipped;
use tempfile::{TempDir, tempdir};

use super::support::{Ran, allocanary, words};

/// A program of the heap's tests that waits. `None`, and a line, if it cannot be made here.
fn start(name: &str, flags: &[&str], argument: Option<&str>) -> Option<(TempDir, Running)> {
    let folder = tempdir().unwrap();
    let source = format!("{}/crates/heap/tests/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let program = compiled(Path::new(&source), folder.path(), flags)?;
    let mut running = Running::start(Command::new(program).args(argument));
    match running.counts()["ready"] {
        0 => {
            skipped("userfaultfd is not allowed here: wanted root, or vm.unprivileged_userfaultfd=1");
            None
        }
        _ => Some((folder, running)),
    }
}

/// A program with a page that can never be read, and a thread that counts.
fn never() -> Option<(TempDir, Running)> {
    start("never", &[], None)
}

fn heap(line: &str) -> Ran {
    allocanary(Path::new("/"), words(&format!("heap {line}")))
}

/// Only pages in memory are copied from a process, so the command never waits for such a page.
#[test]
fn a_page_that_never_comes_is_not_waited_for() {
    let Some((_folder, process)) = never() else { return };
    let ran = heap(&format!("{} --json", process.pid()));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let reading: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&reading["problems"], &reading["process"]["pid"]), (&serde_json::json!([]), &process.pid().into()));
    let tree = heap(&format!("{} --tree", process.pid()));
    assert!(tree.code == Some(0) && tree.out.contains(" in 1 process, "), "{tree:?}");
}

#[test]
fn a_process_that_was_stopped_goes_on_with_all_its_threads() {
    let Some((_folder, mut process)) = never() else { return };
    let ran = heap(&format!("{} --freeze", process.pid()));
    assert!(ran.code == Some(0) && ran.out.contains("was stopped for"), "{ran:?}");
    let mut count = || {
        process.go_on("");
        process.counts()["count"]
    };
    let first = count();
    // Its other thread goes on as well.
    while count() <= first {
        std::thread::yield_now();
    }
}

#[test]
fn leaves_that_lie_in_one_another_are_no_tree() {
    let Some((_folder, process)) = start("overlap", &["-no-pie"], None) else { return };
    let ran = heap(&format!("{} --json", process.pid()));
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.out.contains("found a tree whose leaves lie in one another"), "{ran:?}");
}

/// With `--all`, processes that cost too much have a line, and so do all others.
#[test]
fn among_all_processes_a_liar_is_a_line_and_the_others_are_told() {
    let (Some((_first, never)), Some((_second, overlap))) = (never(), start("overlap", &["-no-pie"], None)) else {
        return;
    };
    let ran = heap("--all --json");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let line = |pid: u32| {
        let values = ran.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        { values }.find(|value| value["process"]["pid"] == pid).unwrap_or_else(|| panic!("{pid}: {ran:?}"))
    };
    assert_eq!(line(never.pid())["problems"], serde_json::json!([]), "{ran:?}");
    // On a busy machine the time can be over after that.
    let problem = line(overlap.pid())["problems"][0].as_str().unwrap_or_default().to_string();
    assert!(problem.contains("a tree whose leaves lie in one another"), "{ran:?}");
    line(std::process::id());
}

#[test]
fn what_needs_more_memory_than_it_may_have_is_a_line() {
    let Some((_folder, process)) = start("overlap", &["-no-pie"], Some("apart")) else { return };
    let told = |line: &str, memory: &str| {
        let ran = heap(line);
        let wanted =
            format!("heap not analysed: reading it took more than {memory} of memory; --reader-memory allows more");
        assert!(ran.out.contains(&wanted), "{ran:?}");
    };
    told(&format!("{} --json --reader-memory 64MiB", process.pid()), "64 MiB");
    // Each of several workers has only a part of the memory, so such a process is read again at the end.
    told("--all --json --reader-memory 64MiB --timeout 5s", "64 MiB");
    let ran = heap("1 --reader-memory 1MiB");
    assert!(
        ran.code == Some(2) && ran.err.contains("wanted a size of 64MiB or more, such as 1GiB; found `1MiB`"),
        "{ran:?}"
    );
}
