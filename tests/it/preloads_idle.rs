//! Preloads whose threads give memory back while they wait. In: programs in C, C++ and Python. Out: the same answers, and
//! less memory.

use std::path::Path;
use std::process::Stdio;

use tempfile::tempdir;

use super::preloads::{ALLOCATORS, clean, compiled, is_here, ran, text};

#[test]
fn waits_answer_as_without_in_both_parts() {
    let folder = tempdir().unwrap();
    let Some(waits) = compiled(folder.path(), "waits.c", &[]) else { return };
    let waits = waits.to_str().unwrap();
    let start = |allocator: Option<&str>| {
        let mut command = clean(&[waits], folder.path(), allocator);
        command.env("ALLOCANARY_PRELOAD", "idle=100ms").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // All at once: they only wait.
    let children: Vec<_> =
        [None, Some("system"), Some("jemalloc"), Some("mimalloc")].map(|with| (with, start(with))).into();
    for (allocator, child) in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{allocator:?}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn threads_that_come_go_fork_and_wait_never_hang() {
    let folder = tempdir().unwrap();
    let Some(torture) = compiled(folder.path(), "torture.c", &[]) else { return };
    for allocator in ALLOCATORS {
        let mut command = clean(&[torture.to_str().unwrap(), "1"], folder.path(), Some(allocator));
        let output = ran(command.env("ALLOCANARY_PRELOAD", "idle=1ms"));
        assert!(output.status.success(), "{allocator}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}

/// The program's answer is the same, and it has this many times as much memory without the setting. On a busy machine a
/// thread may not have had a processor when the program reads its memory: it may try again.
fn gives_back(times: f64, anonymous: &dyn Fn(&str) -> (String, u64), setting: &str) {
    let mut seen = Vec::new();
    let gave = (0..5).any(|_| {
        let (without, with) = (anonymous(""), anonymous(setting));
        assert_eq!(without.0, with.0, "the same answer");
        seen.push((without.1, with.1));
        without.1 as f64 > with.1 as f64 * times
    });
    assert!(gave, "KiB idle without and with {setting}: {seen:?}");
}

#[test]
fn a_program_that_cannot_be_changed_gives_back_what_its_idle_threads_keep() {
    let folder = tempdir().unwrap();
    let Some(idlers) = compiled(folder.path(), "idlers.cpp", &[]) else { return };
    let anonymous = |settings: &str| {
        let mut command = clean(&[idlers.to_str().unwrap(), "16"], folder.path(), Some("jemalloc"));
        let output = ran(command.env("ALLOCANARY_PRELOAD", settings));
        let said = text(&output.stdout);
        let (sum, kib) = said.trim().split_once(' ').unwrap_or_else(|| panic!("{said}{}", text(&output.stderr)));
        (sum.to_string(), kib.parse::<u64>().unwrap())
    };
    gives_back(2.0, &anonymous, "idle=50ms");
}

#[test]
fn python_with_threads_gives_back_what_they_keep() {
    if !is_here("python3") {
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/preload/idle.py");
    let anonymous = |settings: &str| {
        let mut command = clean(&["/usr/bin/python3", program, "10"], Path::new("/"), Some("jemalloc"));
        let output = ran(command.env("ALLOCANARY_PRELOAD", settings));
        let said = text(&output.stdout);
        let (sum, kib) = said.trim().split_once(' ').unwrap_or_else(|| panic!("{said}{}", text(&output.stderr)));
        (sum.to_string(), kib.parse::<u64>().unwrap())
    };
    gives_back(2.0, &anonymous, "idle=100ms");
}
