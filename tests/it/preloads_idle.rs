//! Preloads whose threads give memory back while they wait. In: programs in C. Out: the same answers, and how many times
//! memory was given back. How much less a program then has is a measured check.

use std::fs;
use std::process::Stdio;

use tempfile::tempdir;

use super::bounded::Bounded;
use super::preloads::{at, clean, compiled, proof, ran, text};
use super::support::ours;

#[test]
fn waits_answer_as_without_in_both_parts() {
    let folder = tempdir().unwrap();
    let Some(waits) = compiled(folder.path(), "waits.c", &[]) else { return };
    let waits = waits.to_str().unwrap();
    let start = |allocator: Option<&str>| {
        let mut command = clean(&[waits], folder.path(), allocator);
        command
            .env("ALLOCANARY_PRELOAD", "thread_idle=100ms")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // All at once: they only wait.
    let children: Vec<_> =
        [None, Some("system"), Some("jemalloc"), Some("mimalloc")].map(|with| (with, start(with))).into();
    for (allocator, child) in children {
        let output = child.finish().unwrap();
        assert!(output.status.success(), "{allocator:?}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn threads_that_come_go_fork_and_wait_never_hang() {
    let folder = tempdir().unwrap();
    let Some(torture) = compiled(folder.path(), "torture.c", &[]) else { return };
    for allocator in ours() {
        let mut command = clean(&[torture.to_str().unwrap(), "1"], folder.path(), Some(allocator));
        let output = ran(command.env("ALLOCANARY_PRELOAD", "thread_idle=1ms"));
        assert!(output.status.success(), "{allocator}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn a_thread_that_may_be_cancelled_at_any_instruction_leaves_no_lock_held() {
    let folder = tempdir().unwrap();
    let Some(cancelled) = compiled(folder.path(), "cancelled.c", &[]) else { return };
    for allocator in ours() {
        let mut command = clean(&[cancelled.to_str().unwrap()], folder.path(), Some(allocator));
        let output = ran(command.env("ALLOCANARY_PRELOAD", "thread_idle=1ms"));
        assert_eq!(text(&output.stdout), "ok\n", "{allocator}: {:?}{}", output.status, text(&output.stderr));
    }
}

#[test]
fn each_wait_in_which_nothing_comes_gives_back_once_and_is_counted() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("proof.jsonl");
    let Some(counted) = compiled(folder.path(), "counted.c", &[]) else { return };
    let gave_back = |allocator: &str, settings: &str| {
        let _ = fs::remove_file(&path);
        let mut command = clean(&[counted.to_str().unwrap()], folder.path(), Some(allocator));
        let output = ran(command.env("ALLOCANARY_PRELOAD", settings).env("ALLOCANARY_PROOF", &path));
        assert!(output.status.success(), "{allocator}: {}", text(&output.stderr));
        let lines = proof(&path);
        let exits: Vec<u64> = at(&lines, "exit").iter().map(|line| line["gave_back"].as_u64().unwrap()).collect();
        (text(&output.stdout), exits)
    };
    for allocator in ours() {
        let (answer, kept) = gave_back(allocator, "");
        assert_eq!(kept, [0, 0], "{allocator}: nobody asked for it");
        // Eight threads with four waits each, and one wait of the child, which has the first line.
        assert_eq!(gave_back(allocator, "thread_idle=1ms"), (answer, vec![1, 32]), "{allocator}");
    }
}
