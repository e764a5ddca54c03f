//! Stacks in a window: all stacks of its blocks are there, whatever was overwritten before. And the answer of `who` about a service whose
//! older blocks are not known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use allocanary_testing::skipped::skipped;
use allocanary_trace::coder::Event;
use allocanary_trace::format::TraceEnd;
use allocanary_trace::merge::{At, Sink, merge};
use allocanary_trace::reader::Trace;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use super::bounded::Bounded;
use super::record::{compiled, traces};
use super::record_ends::{kill, wait_for};
use super::support::{Ran, allocanary, command};

/// Seven places, of which tables may have three. The number of places limits the window, and not the time.
const BOUNDS: [&str; 7] = ["record", "-o", "traces", "--window", "60s", "--max-size", "256KiB"];

/// A folder with the program.
fn program() -> Option<(TempDir, PathBuf)> {
    if cfg!(not(all(target_arch = "x86_64", target_env = "gnu"))) {
        skipped("stacks need x86-64 and glibc");
        return None;
    }
    let folder = tempdir().unwrap();
    let program = compiled(folder.path(), "window")?;
    Some((folder, program))
}

fn recorded(folder: &Path) -> Vec<PathBuf> {
    traces(&folder.join("traces"))
}

struct Nothing;

impl Sink for Nothing {
    type Block = ();
    fn allocated(&mut self, _: At, _: allocanary_trace::coder::AllocFunction, _: u64) {}
    fn freed(&mut self, _: At, (): ()) {}
    fn resized(&mut self, _: At, (): (), _: u64) {}
}

/// The stacks of the allocations of each size, and how many allocations there are.
fn by_size(trace: &Trace) -> BTreeMap<u64, (BTreeSet<Vec<u64>>, usize)> {
    let stacks = trace.stacks().unwrap();
    let mut found: BTreeMap<u64, (BTreeSet<Vec<u64>>, usize)> = BTreeMap::new();
    for (thread, _) in trace.threads() {
        for item in trace.stream(thread) {
            if let Event::New { size, .. } = item.event {
                let of_size = found.entry(size.next_multiple_of(8)).or_default();
                of_size.0.insert(stacks.frames(item.stack).map(|code| code.pc).collect());
                of_size.1 += 1;
            }
        }
    }
    found
}

#[test]
fn each_allocation_of_a_window_has_its_stack_also_behind_a_kill_and_a_fork() {
    let Some((folder, program)) = program() else { return };
    let ran = allocanary(
        folder.path(),
        BOUNDS.iter().chain(&["--stack-sample", "all", "--", program.to_str().unwrap(), "rounds"]),
    );
    // Killed by itself, by SIGKILL.
    assert_eq!(ran.code, Some(137), "{}", ran.err);
    let found = recorded(folder.path());
    assert_eq!(found.len(), 2, "of the program and its child: {}", ran.err);
    for path in found {
        let trace = Trace::open(&path).unwrap();
        let header = &trace.header;
        assert_eq!((trace.has_window(), header.stacks, header.no_room), (true, 1, 0));
        assert!(
            header.horizon > 0 && trace.bytes <= 256 << 10,
            "the window is not all of the run: {} bytes",
            trace.bytes
        );
        let merged = merge(&trace, &mut Nothing).unwrap();
        assert_eq!((merged.lost_frees, &merged.damage[..]), (0, &[][..]));
        // At the begin of the window a thread has at most 16 events without a stamp. Allocations among these are left out, frees are not. A
        // second free of an address there is a stray.
        assert!(merged.strays <= 16, "{merged:?}");
        let found = by_size(&trace);
        for size in [104, 208, 312] {
            // Of the first thread, of the other, or of both: they differ in their outermost frames.
            let (stacks, count) = &found[&size];
            assert!(*count > 1000, "{count} blocks of {size} bytes");
            let sites: BTreeSet<[u64; 2]> = stacks.iter().map(|frames| [frames[0], frames[1]]).collect();
            assert!((1..=2).contains(&stacks.len()) && sites.len() == 1, "{size}: {stacks:x?}");
        }
        let places: BTreeSet<u64> = [104, 208, 312].iter().map(|size| found[size].0.first().unwrap()[0]).collect();
        assert_eq!(places.len(), 3, "three functions");
        let names: Vec<String> = trace.stacks().unwrap().modules.into_iter().map(|module| module.path).collect();
        assert!(names.iter().any(|name| name.ends_with("/window")), "{names:?}");
    }
}

/// A stack without room is missing, and no part of it is taken for another stack.
#[test]
fn stacks_that_have_no_room_are_counted_and_said_and_the_others_are_whole() {
    let Some((folder, program)) = program() else { return };
    let line = ["--stack-sample", "all", "--", program.to_str().unwrap(), "paths"];
    let ran = allocanary(folder.path(), BOUNDS.iter().chain(&line));
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "done\n"), "{}", ran.err);
    assert!(ran.err.contains("stacks had no room: allow a larger --max-size"), "{}", ran.err);
    let [path] = &recorded(folder.path())[..] else { panic!("one trace: {}", ran.err) };
    let trace = Trace::open(path).unwrap();
    assert_eq!((trace.header.state, trace.damage()), (TraceEnd::Exited, None));
    assert!(trace.header.no_room > 10_000, "{}", trace.header.no_room);
    let (stacks, count) = &by_size(&trace)[&104];
    // The first hundred had room, and are still there at the end.
    assert!(*count > 1000 && stacks.len() > 90, "{count} blocks, {} stacks", stacks.len());
    let lengths: BTreeSet<usize> = stacks.iter().map(Vec::len).collect();
    let lengths: Vec<usize> = lengths.into_iter().collect();
    assert!(lengths.len() == 2 && lengths[0] == 0 && lengths[1] > 28, "all of a stack or nothing: {lengths:?}");
    let page = allocanary(folder.path(), ["report", path.to_str().unwrap()]);
    assert!(page.out.contains("are missing: there was no room for them"), "{}", page.out);
    let said = allocanary(folder.path(), ["who", path.to_str().unwrap(), "--at", "peak"]);
    assert!(said.out.contains("stacks had no room in the trace"), "{}", said.out);
}

#[test]
fn a_full_disk_ends_the_recording_and_the_program_runs_on() {
    let Some((folder, program)) = program() else { return };
    // SAFETY: no argument.
    if unsafe { libc::geteuid() } != 0 {
        return skipped("a file system of its own needs root");
    }
    fs::create_dir(folder.path().join("traces")).unwrap();
    let mut shell = Command::new("unshare");
    shell.args(["-m", "sh", "-c"]).current_dir(folder.path()).stdin(Stdio::null());
    shell.arg(r#"mount -t tmpfs -o size=200k none traces && "$@"; code=$?; cp traces/*.trace .; exit $code"#).arg("sh");
    shell.arg(command(folder.path()).get_program()).args([
        "record",
        "-o",
        "traces",
        "--window",
        "60s",
        "--stack-sample",
        "all",
        "--",
    ]);
    let ran: Ran = shell.arg(&program).arg("paths").finish().unwrap().into();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "done\n"), "{}", ran.err);
    let [path] = &traces(folder.path())[..] else { panic!("one trace: {}", ran.err) };
    let trace = Trace::open(path).unwrap();
    assert_eq!((trace.has_window(), trace.header.state, trace.damage()), (true, TraceEnd::NoRoom, None));
    let (stacks, count) = &by_size(&trace)[&104];
    assert!(*count > 100 && stacks.len() > 100, "{count} blocks, {} stacks", stacks.len());
}

/// What `who` says of the only trace.
fn who(folder: &Path, ran: &Ran) -> (Value, String) {
    let [path] = &recorded(folder)[..] else { panic!("one trace: {}", ran.err) };
    assert!(ran.err.contains("allocanary who "), "{}", ran.err);
    let said = allocanary(folder, ["who", path.to_str().unwrap(), "--json"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let text = allocanary(folder, ["who", path.to_str().unwrap()]).out;
    (serde_json::from_str(&said.out).unwrap(), text)
}

/// 512 blocks of one page each are older than the window. 1,024 survivors of the window keep the pages of short-lived
/// blocks.
fn assert_found((value, text): (Value, String)) {
    let (answer, site) = (&value["answers"][0], &value["sites"][0]);
    let number = |key: &str| answer[key].as_u64().unwrap_or_else(|| panic!("{key}: {value}"));
    assert_eq!(answer["at"], "end", "{value}");
    assert_eq!((&site["name"], &site["blocks"]), (&"survivor".into(), &1024.into()), "{value}");
    // The pages were read. Blocks at the window's begin are freed in it as well.
    assert!(answer["before_window_bytes"].is_u64() && answer["empty_bytes"].is_u64(), "{value}");
    assert!((10..=14).contains(&number("freed_from_before")), "{value}");
    assert!(answer["outside_bytes"].is_null(), "{value}");
    for wanted in
        ["at most ", "before the window: no block of it was there", "Blocks from before the window are not in"]
    {
        assert!(text.contains(wanted), "{text}");
    }
}

/// The terminal's Ctrl-C does not reach the program directly here: its pages are read first.
#[test]
fn the_pages_of_a_program_in_a_window_are_read_before_a_signal_is_passed_on() {
    for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
        let Some((folder, program)) = program() else { return };
        let mut command = command(folder.path());
        command
            .args(BOUNDS)
            .args(["--stack-sample", "all", "--"])
            .arg(&program)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        wait_for(&folder.path().join("up"), &mut child);
        kill(signal, &child);
        let ran: Ran = child.finish().unwrap().into();
        assert_eq!((ran.code, ran.out.as_str()), (Some(code), "ready\n"), "{signal}: {}", ran.err);
        assert_found(who(folder.path(), &ran));
    }
}

#[test]
fn the_pages_of_a_service_are_read_when_the_user_interrupts_it() {
    let Some((folder, program)) = program() else { return };
    let mut command = command(folder.path());
    command.args(BOUNDS).args([
        "--stack-sample",
        "all",
        "--ready",
        "line:ready",
        "--load",
        "touch loading; sleep 87",
        "--",
    ]);
    let mut child = command.arg(&program).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&folder.path().join("loading"), &mut child);
    kill("-INT", &child);
    let ran: Ran = child.finish().unwrap().into();
    assert!(ran.code == Some(130) && ran.err.contains("interrupted"), "{ran:?}");
    assert_found(who(folder.path(), &ran));
    let trace = Trace::open(&recorded(folder.path())[0]).unwrap();
    assert!(trace.header.end.is_some() && trace.header.marks.idle.is_none(), "{:?}", trace.header);
}
