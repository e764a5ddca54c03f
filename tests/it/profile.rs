//! The always-on profile: a program in C with a known answer under each preload, read by `allocanary who PID` while it runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use allocanary_testing::programs;
use object::{Object, ObjectSection};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use super::support::{Ran, allocanary};

const MIB: f64 = 1048576.0;

/// Each preload, with the setting that it needs.
pub const PRELOADS: [(&str, &str); 4] = [
    (env!("CARGO_BIN_EXE_preload-profile"), ""),
    (env!("CARGO_BIN_EXE_preload-system"), "profile=512KiB"),
    (env!("CARGO_BIN_EXE_preload-jemalloc"), "profile=512KiB"),
    (env!("CARGO_BIN_EXE_preload-mimalloc"), "profile=512KiB"),
];

/// A program that is at rest, and is killed with the test.
pub struct Service {
    child: Child,
    said: Vec<String>,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    pub fn start(program: &Path, what: &str, preload: &str, settings: &str) -> Service {
        let mut command = Command::new(program);
        command.arg(what).env_clear().env("LD_PRELOAD", preload).env("ALLOCANARY_PRELOAD", settings);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said: Vec<String> = Vec::new();
        // A child and its parent write in any order.
        while !said.iter().any(|line| line == "ready") || (what == "fork" && said.len() < 2) {
            said.push(lines.next().expect("it says when it is ready").unwrap());
        }
        Service { child, said }
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

pub fn compiled() -> Option<(TempDir, PathBuf)> {
    let folder = tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/profile_c/service.c");
    let program = programs::compiled(&source, folder.path(), &["-g"])?;
    Some((folder, program))
}

fn json(folder: &Path, pid: &str) -> Value {
    let ran = allocanary(folder, ["who", pid, "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

/// A site's figure; 0 if it is not there.
fn figure(all: &Value, site: &str, name: &str) -> f64 {
    let sites = all["sites"].as_array().unwrap();
    sites.iter().find(|one| one["name"] == site).map_or(0.0, |one| one[name].as_f64().unwrap())
}

/// Whether MiB lie within bounds twice as wide as the interval, outside of which one draw in 20 is. Of a hundred thousand draws, nine are
/// outside of these bounds.
fn holds(all: &Value, site: &str, mib: f64) {
    let [low, live, high] =
        ["requested_low_bytes", "requested_bytes", "requested_high_bytes"].map(|name| figure(all, site, name) / MIB);
    assert!(low - (live - low) <= mib && mib <= high + (high - live), "{site}: {low} to {high}, wanted {mib}: {all:#}");
}

#[test]
fn a_running_program_says_who_holds_its_memory_under_every_preload() {
    let Some((folder, program)) = compiled() else { return };
    for (preload, settings) in PRELOADS {
        let service = Service::start(&program, "", preload, settings);
        let all = json(folder.path(), &service.pid());
        holds(&all, "keeper", 64.0);
        holds(&all, "hoarder", 64.0);
        assert_eq!(figure(&all, "churn", "requested_bytes"), 0.0, "{preload}: {all:#}");
        assert!(figure(&all, "churn", "allocated_total_bytes") > 100.0 * MIB, "{preload}: {all:#}");
        let depth = fs::read_to_string(format!("/proc/{}/status", service.pid())).unwrap();
        assert!(depth.contains("Threads:\t1\n") && depth.contains("TracerPid:\t0\n"), "no thread, no stop: {depth}");
    }
}

#[test]
fn a_resized_block_is_of_who_resized_it_and_a_freed_one_of_nobody() {
    let Some((folder, program)) = compiled() else { return };
    for (preload, settings) in PRELOADS {
        let service = Service::start(&program, "realloc", preload, settings);
        let all = json(folder.path(), &service.pid());
        assert_eq!(figure(&all, "keeper", "requested_bytes"), 0.0, "{preload}: {all:#}");
        holds(&all, "grower", 128.0);
        let service = Service::start(&program, "free", preload, settings);
        let all = json(folder.path(), &service.pid());
        assert_eq!(figure(&all, "keeper", "requested_bytes"), 0.0, "{preload}: {all:#}");
        holds(&all, "hoarder", 64.0);
    }
}

#[test]
fn a_forks_child_has_a_table_of_its_own_and_threads_come_and_go() {
    let Some((folder, program)) = compiled() else { return };
    for (preload, settings) in PRELOADS {
        let service = Service::start(&program, "fork", preload, settings);
        let child = service.said.iter().find_map(|line| line.strip_prefix("child ")).unwrap().to_string();
        let all = json(folder.path(), &child);
        // It has freed what its parent had made, and made 5,000 blocks itself.
        holds(&all, "keeper", 19.07);
        assert_eq!(figure(&all, "hoarder", "requested_bytes"), 0.0, "{preload}: {all:#}");
        assert!(all["notes"].to_string().contains("fork's child"), "{all:#}");
        holds(&json(folder.path(), &service.pid()), "keeper", 64.0);
        Command::new("kill").arg(&child).status().unwrap();

        let service = Service::start(&program, "threads", preload, settings);
        let all = json(folder.path(), &service.pid());
        holds(&all, "hoarder", 64.0);
        assert_eq!(figure(&all, "churn", "requested_bytes"), 0.0, "{preload}: {all:#}");
    }
}

#[test]
fn threads_that_free_each_others_blocks_leave_nothing_and_thousands_of_them_are_known() {
    let Some((folder, program)) = compiled() else { return };
    for (preload, settings) in PRELOADS {
        // Samples lie so near that every tenth block is one.
        let service = Service::start(&program, "hands", preload, "profile=16KiB");
        let all = json(folder.path(), &service.pid());
        assert_eq!(figure(&all, "hander", "samples"), 0.0, "{preload}: {all:#}");
        assert!(figure(&all, "hander", "allocated_total_bytes") > 1000.0 * MIB, "{preload}: {all:#}");
        let service = Service::start(&program, "many", preload, settings);
        holds(&json(folder.path(), &service.pid()), "each", 76.29);
    }
}

#[test]
fn a_process_with_a_filter_of_system_calls_is_not_sampled_from_then_on() {
    let Some((folder, program)) = compiled() else { return };
    for (preload, settings) in PRELOADS {
        let service = Service::start(&program, "seccomp", preload, settings);
        let all = json(folder.path(), &service.pid());
        holds(&all, "keeper", 64.0);
        assert!(all["notes"].to_string().contains("filter of system calls"), "{preload}: {all:#}");
    }
}

#[test]
fn of_two_preloads_with_a_profile_each_one_is_shown() {
    let Some((folder, program)) = compiled() else { return };
    let both = format!("{} {}", PRELOADS[0].0, PRELOADS[2].0);
    let service = Service::start(&program, "", &both, "profile=512KiB");
    let all = json(folder.path(), &service.pid());
    holds(&all, "keeper", 64.0);
    assert!(all["notes"].to_string().contains("2 libraries profile this process"), "{all:#}");
}

/// The table has the addresses of sampled blocks: it must not hold what it knows.
#[test]
fn leaked_blocks_that_were_sampled_have_their_call_site_and_are_leaked_all_the_same() {
    let Some((folder, program)) = compiled() else { return };
    // Of the blocks of 640 bytes one in 7 is sampled, of those of 2,000 bytes two in 5.
    let service = Service::start(&program, "leak", PRELOADS[0].0, "profile=4KiB");
    let ran = allocanary(folder.path(), ["heap", &service.pid(), "--contents", "--json"]);
    let all: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    let leaked = &all["leaked"];
    let mut known = 0;
    // A word that is left on the stack can hold a block.
    for (site, least, count, sampled) in [("loser", 640, 1000, 50..400), ("forgetter", 2000, 300, 60..200)] {
        let rows = leaked["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| (least..least + 16).contains(&row["each_bytes"].as_u64().unwrap()));
        let row = row.unwrap_or_else(|| panic!("{site}: {all:#}"));
        assert!((count - 2..=count).contains(&row["blocks"].as_u64().unwrap()), "{site}: {all:#}");
        let [found] = &row["sites"].as_array().unwrap_or_else(|| panic!("{site}: {all:#}"))[..] else {
            panic!("{site}: {all:#}")
        };
        assert_eq!(found["name"], site, "{all:#}");
        let blocks = found["blocks"].as_u64().unwrap();
        assert!(sampled.contains(&blocks) && found["bytes"] == blocks * least, "{site}: {all:#}");
        assert!(row["sampled"].is_null(), "the addresses are not told: {row:#}");
        known += blocks;
    }
    assert_eq!(leaked["sampled"], known, "{all:#}");
    let text = allocanary(folder.path(), ["heap", &service.pid(), "--contents"]);
    let words = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("allocated by `loser` (") && words.contains("by forgetter"), "{text:?}");
}

/// Finds the table as a reader does, by the mark in the preload's data.
pub fn table(pid: &str, preload: &str) -> (fs::File, u64) {
    const MARK: &[u8] = b"\xa1\x10\xca\x4a\x21profiles\xf0\x9f\x1b";
    let memory = fs::File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    for line in maps.lines().filter(|line| line.ends_with(preload) && line.contains(" rw")) {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [from, to] = [from, to].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut data = vec![0; (to - from) as usize];
        memory.read_exact_at(&mut data, from).unwrap();
        if let Some(at) = data.windows(MARK.len()).position(|part| part == MARK) {
            let pointer = data[at + MARK.len()..][..8].try_into().unwrap();
            return (memory, u64::from_le_bytes(pointer));
        }
    }
    panic!("{preload} has no mark: {maps}");
}

#[test]
fn a_table_of_another_version_or_without_sense_is_an_error() {
    let Some((folder, program)) = compiled() else { return };
    let (preload, settings) = PRELOADS[1];
    let service = Service::start(&program, "", preload, settings);
    let pid = service.pid();
    let (memory, table) = table(&pid, preload);
    let after = |word: u64, value: u64| {
        let mut before = [0; 8];
        memory.read_exact_at(&mut before, table + word * 8).unwrap();
        memory.write_all_at(&value.to_le_bytes(), table + word * 8).unwrap();
        let ran = allocanary(folder.path(), ["who", &pid]);
        memory.write_all_at(&before, table + word * 8).unwrap();
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        ran.err
    };
    let said = after(1, 99);
    assert!(said.contains("wanted a profile of version 1, found 99"), "{said}");
    let said = after(4, u64::MAX);
    assert!(said.contains("sizes that no table has"), "{said}");
    let said = after(7, 1 << 60);
    assert!(said.contains("its profile is damaged"), "{said}");
    holds(&json(folder.path(), &pid), "keeper", 64.0);
}

#[test]
fn a_process_that_ends_while_it_is_read_is_an_answer_or_an_error() {
    let Some((folder, program)) = compiled() else { return };
    for millis in 0..12 {
        let mut service = Service::start(&program, "", PRELOADS[0].0, "");
        let pid = service.pid();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| allocanary(folder.path(), ["who", &pid]));
            std::thread::sleep(std::time::Duration::from_millis(millis * 2));
            service.child.kill().unwrap();
            let ran = reader.join().unwrap();
            let is_error = ran.code == Some(2) && ran.err.contains(&format!("process {pid}"));
            assert!(ran.code == Some(0) || is_error, "{millis}: {ran:?}");
        });
    }
}

#[test]
fn it_is_read_while_it_works_and_compared_with_an_earlier_moment() {
    let Some((folder, program)) = compiled() else { return };
    let (preload, settings) = PRELOADS[1];
    let mut service = Service::start(&program, "", preload, settings);
    let pid = service.pid();
    let ran = allocanary(folder.path(), ["who", &pid, "--json"]);
    fs::write(folder.path().join("before.json"), ran.out).unwrap();
    service.child.stdin.as_mut().unwrap().write_all(b"work\n").unwrap();
    for _ in 0..20 {
        let all = json(folder.path(), &pid);
        holds(&all, "keeper", 64.0);
    }
    let ran: Ran = allocanary(folder.path(), ["who", &pid, "--against", "before.json"]);
    assert!(ran.code == Some(0) && ran.out.contains("no site is shown to hold more"), "{ran:?}");
    for (format, begin) in [("collapsed", &b"main;"[..]), ("flamegraph", b"<?xml"), ("pprof", &[0x1f, 0x8b])] {
        let ran = allocanary(folder.path(), ["who", &pid, "--format", format, "--output", "out", "--short"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let written = fs::read(folder.path().join("out")).unwrap();
        let is_there = written.windows(begin.len()).any(|part| part == begin);
        assert!(is_there, "{format}: {}", String::from_utf8_lossy(&written));
    }
}

#[test]
fn a_process_without_a_profile_or_a_question_that_it_cannot_answer_is_an_error() {
    let folder = tempdir().unwrap();
    let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleep.id().to_string();
    let ran = allocanary(folder.path(), ["who", &pid]);
    assert!(ran.code == Some(2) && ran.err.contains("has no profile: start it with"), "{ran:?}");
    let ran = allocanary(folder.path(), ["who", &pid, "--under", "jemalloc"]);
    assert!(ran.code == Some(2) && ran.err.contains("--under: wanted a trace"), "{ran:?}");
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    let ran = allocanary(folder.path(), ["who", "4294967295"]);
    assert!(ran.code == Some(2) && ran.err.contains("process 4294967295"), "{ran:?}");
}

/// A note of `.note.stapsdt`: provider, name, arguments, and the addresses of the probe and of its semaphore.
#[derive(Debug, PartialEq)]
struct Probe(String, u64, u64);

/// The probes of a file, as a tracer reads them.
fn probes(file: &Path) -> Vec<Probe> {
    let bytes = fs::read(file).unwrap();
    let object = object::File::parse(&bytes[..]).unwrap();
    let section = object.section_by_name(".note.stapsdt").expect("the notes are there");
    let mut notes = section.data().unwrap();
    let mut found = Vec::new();
    while notes.len() >= 12 {
        let number = |at: usize| u32::from_le_bytes(notes[at..at + 4].try_into().unwrap()) as usize;
        let (name, length, kind) = (number(0), number(4), number(8));
        assert_eq!((kind, &notes[12..20]), (3, &b"stapsdt\0"[..]));
        let from = 12 + name.next_multiple_of(4);
        let note = &notes[from..from + length];
        let address = |at: usize| u64::from_le_bytes(note[at..at + 8].try_into().unwrap());
        let texts: Vec<&str> = std::str::from_utf8(&note[24..]).unwrap().split('\0').collect();
        found.push(Probe(texts[..3].join(" "), address(0), address(16)));
        notes = &notes[from + length.next_multiple_of(4)..];
    }
    found
}

/// The semaphore that a tracer counts up is the word that the program reads, and the probe is a `nop`.
#[test]
fn every_preload_has_the_probes_that_tracers_look_for() {
    let Some((_folder, program)) = compiled() else { return };
    for (preload, settings) in PRELOADS {
        let path = Path::new(preload);
        let found = probes(path);
        let texts: Vec<&str> = found.iter().map(|probe| probe.0.as_str()).collect();
        if cfg!(target_arch = "x86_64") {
            assert_eq!(texts, ["otel_memory alloc 8@%rdi 8@%rsi 8@%rdx", "otel_memory free 8@%rdi"], "{preload}");
        }
        let mut service = Service::start(&program, "", preload, settings);
        let maps = fs::read_to_string(format!("/proc/{}/maps", service.pid())).unwrap();
        let line = maps.lines().find(|line| line.ends_with(preload)).expect("it is mapped");
        let base = u64::from_str_radix(line.split_once('-').unwrap().0, 16).unwrap();
        let memory = fs::File::options().read(true).write(true).open(format!("/proc/{}/mem", service.pid())).unwrap();
        for Probe(text, probe, semaphore) in &found {
            let mut code = [0];
            memory.read_exact_at(&mut code, base + probe).unwrap();
            if cfg!(target_arch = "x86_64") {
                assert_eq!(code, [0x90], "{text}");
            }
            let mut count = [9; 2];
            memory.read_exact_at(&mut count, base + semaphore).unwrap();
            assert_eq!(count, [0, 0], "{text}: nobody traces");
            memory.write_all_at(&[1, 0], base + semaphore).unwrap();
        }
        // It runs through the probes now, and ends as before.
        let mut input = service.child.stdin.take().unwrap();
        input.write_all(b"work\n").unwrap();
        drop(input);
        assert!(service.child.wait().unwrap().success(), "{preload}");
    }
}
