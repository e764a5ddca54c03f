//! `allocanary heap` as a user runs it: saved readings as golden files, a process of our own, and what is refused.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use allocanary_testing::skipped::skipped;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{Ran, allocanary, assert_golden, command, golden_path, words};

fn heap(line: &str) -> Ran {
    allocanary(Path::new("/"), words(&format!("heap {line}")))
}

fn golden(name: &str) -> String {
    fs::read_to_string(golden_path(name)).unwrap()
}

/// A process that waits until it is dropped.
struct Waiting(Child);

impl Waiting {
    fn start(line: &[&str]) -> Waiting {
        let mut command = Command::new(line[0]);
        command.args(&line[1..]);
        Waiting(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two readings of one process, an hour apart.
#[test]
fn saved_readings_are_shown_compared_and_written_again() {
    let [before, after] = ["heap-before.json", "heap-after.json"].map(golden_path);
    let narrow = |line: String| -> Ran {
        let mut heap = command(Path::new("/"));
        heap.env("COLUMNS", "80").arg("heap").args(words(&line)).finish().unwrap().into()
    };
    let shown = narrow(format!("show {}", after.display()));
    assert_eq!((shown.code, shown.err.as_str()), (Some(0), ""));
    assert_golden("heap.txt", &shown.out);
    let brief = narrow(format!("show {} --short", after.display()));
    assert!(brief.code == Some(0) && (1..=10).contains(&brief.out.lines().count()), "{brief:?}");
    let compared = narrow(format!("diff {} {}", before.display(), after.display()));
    assert_eq!((compared.code, compared.err.as_str()), (Some(0), ""));
    assert_golden("heap-diff.txt", &compared.out);
    for text in [&shown.out, &compared.out] {
        assert!(!text.contains('\x1b') && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let json = heap(&format!("show {} --json", after.display()));
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&json.out), value(&fs::read_to_string(after).unwrap()));
}

#[test]
fn a_process_that_runs_is_read_saved_and_drawn() {
    let folder = tempdir().unwrap();
    let process = Waiting::start(&["cat"]);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let line = format!("heap {} --json --save {} --output {}", process.pid(), at("a.json"), at("a.html"));
    let ran = allocanary(folder.path(), words(&line));
    if ran.err.contains("may not be read") {
        return skipped("another process may not be read here: kernel.yama.ptrace_scope, or a container");
    }
    assert!(ran.err.contains("page: "), "{ran:?}");
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let sum = |list: &serde_json::Value| {
        list.as_array().unwrap().iter().map(|one| number(&one["resident_bytes"])).sum::<u64>()
    };
    assert_eq!(number(&value["resident_bytes"]), sum(&value["heaps"]) + sum(&value["areas"]));
    assert_eq!(value["process"]["pid"], process.pid());
    let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("a.json"), mode("a.html")), (0o600, 0o600));
    let page = fs::read_to_string(at("a.html")).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>")
            && page.contains("The memory of cat")
            && !page.contains("http:")
            && !page.contains("https:"),
        "{page}"
    );
    let shown = allocanary(folder.path(), words("heap show a.json"));
    assert!(shown.out.contains("all that is resident"), "{shown:?}");
    let tree = heap(&format!("{} --tree", process.pid()));
    // A page counts once if this is root: only root can learn how many processes have a page.
    assert!(tree.out.contains(" in 1 process, shared pages counted "), "{tree:?}");
    let doctor = allocanary(folder.path(), words(&format!("doctor {}", process.pid())));
    assert!(doctor.out.contains("\n  analysed    "), "{}", doctor.out);
}

/// What a process contains, saved twice.
#[test]
fn saved_contents_are_shown_and_compared() {
    let [before, after] = ["contents-before.json", "contents-after.json"].map(golden_path);
    let narrow = |line: String| -> Ran {
        let mut heap = command(Path::new("/"));
        heap.env("COLUMNS", "80").arg("heap").args(words(&line)).finish().unwrap().into()
    };
    let shown = narrow(format!("show {}", after.display()));
    assert_eq!((shown.code, shown.err.as_str()), (Some(0), ""));
    assert_golden("contents.txt", &shown.out);
    let compared = narrow(format!("diff {} {}", before.display(), after.display()));
    assert_eq!((compared.code, compared.err.as_str()), (Some(0), ""));
    assert_golden("contents-diff.txt", &compared.out);
    for text in [&shown.out, &compared.out] {
        assert!(!text.contains('\x1b') && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let json = heap(&format!("show {} --json", after.display()));
    assert_eq!(json.out, fs::read_to_string(&after).unwrap());
    let mixed = heap(&format!("diff {} {}", before.display(), golden_path("heap-after.json").display()));
    assert!(mixed.code == Some(2) && mixed.err.contains("two files with --contents, or two without"), "{mixed:?}");
}

#[test]
fn what_a_process_contains_is_read_within_limits_and_saved() {
    let folder = tempdir().unwrap();
    let process = Waiting::start(&["cat"]);
    let line = format!("heap {} --contents --json --save a.json", process.pid());
    let ran = allocanary(folder.path(), words(&line));
    if ran.err.contains("may not be read") {
        return skipped("another process may not be read here: kernel.yama.ptrace_scope, or a container");
    }
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    let sum = |rows: &serde_json::Value, what: &str| -> u64 {
        rows.as_array().unwrap().iter().map(|row| row[what].as_u64().unwrap()).sum()
    };
    assert_eq!(value["process"]["pid"], process.pid());
    for what in ["bytes", "blocks"] {
        let (all, lost) = (value[what].as_u64().unwrap(), value["leaked"][what].as_u64().unwrap());
        assert_eq!(sum(&value["kinds"], what), all, "{value}");
        assert_eq!(sum(&value["holders"], what) + lost, all, "each block has one holder or is leaked: {value}");
    }
    assert_eq!(fs::metadata(folder.path().join("a.json")).unwrap().permissions().mode() & 0o777, 0o600);
    let small = heap(&format!("{} --contents --copy-limit 4KiB", process.pid()));
    let words = small.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(small.code == Some(1) && words.contains("--copy-limit allows more"), "leaks are not told: {small:?}");
    assert!(words.contains("Kinds are of a sample"), "{small:?}");
    let other = heap(&format!("{} --contents --trace /nowhere", process.pid()));
    assert!(other.code == Some(2) && other.err.contains("/nowhere"), "{other:?}");
}

#[test]
fn a_watch_ends_with_its_process() {
    watched(Waiting::start(&["cat"]), drop);
}

#[test]
fn a_watch_ends_where_the_process_runs_another_program() {
    let mut after = None;
    watched(Waiting::start(&["sh", "-c", "read line; exec cat"]), |mut process| {
        process.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        after = Some(process);
    });
}

/// Watches a process until two readings are there. It then `ends`, and so does the watch.
fn watched(process: Waiting, ends: impl FnOnce(Waiting)) {
    let folder = tempdir().unwrap();
    let saved = folder.path().join("over-time.jsonl");
    let mut watch = Command::new(env!("CARGO_BIN_EXE_allocanary"))
        .args(["heap", &process.pid().to_string(), "--every", "100ms", "--save"])
        .arg(&saved)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Until two readings are there, or the process could not be read.
    let lines = || fs::read_to_string(&saved).unwrap_or_default().lines().count();
    while lines() < 2 && watch.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    ends(process);
    let ran: Ran = watch.finish().unwrap().into();
    if ran.err.contains("may not be read") {
        return skipped("another process may not be read here: kernel.yama.ptrace_scope, or a container");
    }
    assert!(ran.code == Some(0) && ran.err.contains("has ended"), "{ran:?}");
    assert!(ran.out.trim_start().starts_with("time (UTC)") && ran.out.lines().count() >= 3, "{ran:?}");
    let compared = heap(&format!("diff {0} {0}", saved.display()));
    assert!(compared.out.starts_with("+0 B resident"), "{compared:?}");
}

#[test]
fn what_is_wrong_is_told_in_a_line() {
    let folder = tempdir().unwrap();
    let at = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let later = at("later", "{\"schema\":99}\n");
    let later_contents =
        at("later-contents", &golden("contents-after.json").replace("\"contents\":1", "\"contents\":99"));
    let other = at("other", "{}\n");
    let empty = at("empty", "\n");
    let none = at("none", "text\n");
    for (line, wanted) in [
        ("".to_string(), "wanted a process ID, a name, or --all"),
        ("1073741823".into(), "process 1073741823: there is none, or it has ended"),
        ("no-such-program-here".into(), "no process has the name `no-such-program-here`"),
        ("1 2".into(), "wanted one process, found `2` as well"),
        ("diff a".into(), "heap diff: wanted two files"),
        ("show".into(), "heap show: wanted one file"),
        ("1 --every never".into(), "--every: wanted a time of 100ms or more, such as 5s; found `never`"),
        ("1 --timeout never".into(), "--timeout: wanted a time of 1ms or more, such as 10s; found `never`"),
        ("1 --contents --copy-limit much".into(), "--copy-limit: wanted a size such as 2GiB; found `much`"),
        (format!("show {later_contents}"), "wanted contents of schema 1, found 99"),
        (
            format!("--core {none}"),
            "wanted the core of a program for x86-64 or aarch64, as the kernel or gcore writes it",
        ),
        ("--core /nowhere/core".into(), "/nowhere/core: No such file"),
        (format!("show {later}"), "line 1: wanted a reading of schema 1, found 99"),
        (format!("show {other}"), "found no `schema`"),
        (format!("show {empty}"), "found none"),
        (format!("show {none}"), "line 1: wanted a reading, found no JSON"),
        ("show /nowhere/at/all".into(), "/nowhere/at/all: reading: No such file"),
    ] {
        let ran = heap(&line);
        assert!(ran.code == Some(2) && ran.err.contains(wanted) && ran.out.is_empty(), "heap {line}: {ran:?}");
    }
}

#[test]
fn several_processes_of_a_name_are_listed() {
    let folder = tempdir().unwrap();
    let program = folder.path().join("twin-of-cat");
    super::support::copy_program(Path::new("/bin/cat"), &program);
    let processes = [(); 2].map(|()| Waiting::start(&[program.to_str().unwrap()]));
    let ran = heap("twin-of-cat");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("2 processes have the name `twin-of-cat`"), "{ran:?}");
    assert!(processes.iter().all(|process| ran.err.contains(&format!("  {} ", process.pid()))), "{ran:?}");
}
