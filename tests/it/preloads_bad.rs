//! The preloads at bad moments: forks and exits while the allocator is locked, calls that fail, programs that must have
//! one thread.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;

use super::preloads::{clean, compiled, is_here, preload, ran, text};
use super::support::ours;
use allocanary_testing::skipped::skipped;

/// Compiles one of `preloads_c` and exports its functions, so that libraries find them before the C library's.
fn compiled_first(folder: &Path, name: &str) -> Option<PathBuf> {
    compiled(folder, name, &["-rdynamic"])
}

/// The number of locks that the program has tried.
fn locks(output: &Output) -> u32 {
    let said = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    said.trim().strip_suffix(" locks").and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn a_forked_child_gets_no_lock_that_a_thread_has() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled_first(folder.path(), "fork_locked.c") else { return };
    for allocator in ["jemalloc", "mimalloc"] {
        let found = locks(&ran(&mut clean(&[program.to_str().unwrap()], folder.path(), Some(allocator))));
        assert!(found >= 2, "{allocator}: {found} locks: the start of a thread takes more");
    }
}

#[test]
fn a_signal_handler_that_calls_exit_ends_the_program() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("proof.jsonl");
    let Some(program) = compiled_first(folder.path(), "exit_locked.c") else { return };
    for (allocator, settings) in [("jemalloc", ""), ("jemalloc", "dirty_decay_ms=0"), ("mimalloc", "")] {
        let _ = fs::remove_file(&path);
        let mut command = clean(&[program.to_str().unwrap()], folder.path(), Some(allocator));
        let found = locks(&ran(command.env("ALLOCANARY_PROOF", &path).env("ALLOCANARY_PRELOAD", settings)));
        assert!(found >= 2, "{allocator}: {found} locks");
        let lines = fs::read_to_string(&path).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let (counted, bare): (Vec<Value>, Vec<Value>) =
            lines.filter(|line| line["at"] == "exit").partition(|line| line["allocator_resident_bytes"].is_u64());
        // A child for each lock, one child without a signal, and the parent.
        assert_eq!((bare.len(), counted.len()), (found as usize, 2), "{allocator} {settings}: {counted:?}");
    }
}

#[test]
fn a_program_that_has_handlers_has_counters_at_its_exit() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("proof.jsonl");
    let Some(program) = compiled(folder.path(), "exit_stale.c", &[]) else { return };
    let mut command = clean(&[program.to_str().unwrap()], folder.path(), Some("jemalloc"));
    assert!(ran(command.env("ALLOCANARY_PROOF", &path)).status.success());
    let lines = fs::read_to_string(&path).unwrap();
    let exit: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert!(exit["at"] == "exit" && exit["allocator_resident_bytes"].is_u64(), "{exit}");
}

#[test]
fn a_program_that_must_have_one_thread_has_one_with_the_tuned_set() {
    let folder = tempdir().unwrap();
    if !is_here("unshare") {
        return;
    }
    let words = ["unshare", "-U", "true"];
    let without = ran(&mut clean(&words, folder.path(), None));
    if !without.status.success() {
        return skipped(format_args!("user namespaces are not allowed here: {}", text(&without.stderr)));
    }
    for allocator in ours() {
        let with = ran(clean(&words, folder.path(), Some(allocator)).env("ALLOCANARY_PRELOAD", "tuned"));
        assert!(with == without, "{allocator}: {with:?}");
    }
}

#[test]
fn the_recorder_answers_as_the_allocator_behind_it() {
    let folder = tempdir().unwrap();
    let Some(family) = compiled(folder.path(), "family.c", &[]) else { return };
    let recorder = env!("CARGO_BIN_EXE_preload-record");
    for allocator in ours().into_iter().map(Some).chain([None]) {
        let behind = allocator.map_or(String::new(), |allocator| format!(":{}", preload(allocator).display()));
        let mut command: Command = clean(&[family.to_str().unwrap()], folder.path(), None);
        command.env("LD_PRELOAD", format!("{recorder}{behind}")).env("ALLOCANARY_RECORD", folder.path());
        let output = ran(&mut command);
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(0), "every function answered\n"),
            "{allocator:?}"
        );
    }
    let traces = fs::read_dir(folder.path()).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    assert_eq!(traces.filter(|name| name.ends_with(".trace")).count(), 4);
}
