//! Checks that a cell's statements are true: its peak is its own, its data were checked, its settings are in force, and
//! no variable of the user reaches it without being passed on.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};

use allocanary_rows::Moment::{Filled, Idle, Peak, Purged, Released};
use allocanary_rows::job::Job;
use allocanary_rows::sample::Sample;
use allocanary_trace::builder::TraceBuilder;
use allocanary_trace::coder::{AllocFunction, Event};
use tempfile::tempdir;

use super::bounded::Bounded;
use super::fake;
use super::support::{TINY, allocanary, answer, cell, cell_with, command, ours, program, reading, samples, words};

const SMALL_SERVER: &str = "server:live=256KiB,requests=64,bursts=1,burst=64KiB,settle=1ms";

#[test]
#[expect(clippy::zombie_processes, reason = "wait4 is what waits, since std's wait tells no usage")]
fn a_large_parent_does_not_change_a_cells_peak() {
    const LARGE: usize = 300 << 20;
    let ballast = std::hint::black_box(vec![1_u8; LARGE]);
    let mut child =
        Command::new(program("system")).arg("run").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let asked = serde_json::to_vec(&cell("system", TINY, 1)).unwrap();
    child.stdin.take().unwrap().write_all(&asked).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the child is ours and not waited for, and the pointer is to a whole rusage.
    let usage = unsafe {
        assert_eq!(libc::wait4(child.id() as i32, std::ptr::null_mut(), 0, usage.as_mut_ptr()), child.id() as i32);
        usage.assume_init()
    };
    drop(ballast);
    if ((usage.ru_maxrss as usize) << 10) < LARGE {
        eprintln!("this kernel does not carry a parent's peak across exec: the trap is not there to fall into");
    }
    let answer = serde_json::from_str::<Sample>(&text).unwrap().measured.unwrap();
    let peak = reading(&answer, "peak_resident_bytes", Purged);
    assert!(peak < 64 << 20 && peak > 256 << 10, "{peak}");
}

/// The row has the allocations for a blob's tree, and the buffers that are kept between blobs.
#[test]
fn a_cell_tells_what_its_blobs_allocated() {
    for (variant, allocations, bytes, held) in
        [("naive", 6, 16_520, 0), ("reuse", 4, 10_920, 5600 + 290), ("ours", 0, 0, 5600 + 6064)]
    {
        let answer = answer(&cell("system", &format!("blob:variant={variant},size=10000,blobs=50,settle=1ms"), 1));
        let notes = [("work_allocations", 50 * allocations), ("work_allocated_bytes", 50 * bytes)];
        let notes: BTreeMap<String, u64> = notes.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        assert_eq!((answer.notes.clone(), answer.operations, answer.verified), (notes, 50, 50), "{variant}");
        let live = [Filled, Peak, Idle, Released, Purged].map(|moment| answer.requested(moment));
        assert_eq!(live, [10_000 + held, 10_000 + held, 10_000 + held, 0, 0].map(Some), "{variant}");
    }
}

/// A short form of a workload.
struct Short {
    parameters: &'static str,
    /// The least checks of data.
    checks: u64,
    /// The number of stopwatches, each of which times its first operation; `None` if no operation is timed.
    stopwatches: Option<u64>,
}

/// The short form of each workload, for three threads.
fn short(workload: &str) -> Short {
    let (parameters, checks, stopwatches) = match workload {
        "server" => ("live=256KiB,requests=64,bursts=1,burst=64KiB", 64, Some(0)),
        "handoff" => ("queued=1000,operations=1000", 64, Some(3)),
        // Two generations of three threads.
        "bleed" => ("live=1000,generations=2,operations=1000", 64, Some(6)),
        "small" => ("live=64,operations=1000", 64, Some(3)),
        "list" => ("nodes=1000", 1000, Some(3)),
        "sort" => ("records=1000", 1000, Some(3)),
        "blob" => ("size=10000,blobs=192,input=random", 64, Some(0)),
        "churn" => ("high=8MiB,low=1MiB,chunk=64KiB", 64, Some(0)),
        "storm" => ("live=64KiB,load=2,in_flight=8,steady=20,requests=40", 64, Some(0)),
        // One block for each thread.
        "reserve" => ("size=1MiB,touched=50", 3, Some(0)),
        "wakes" => ("lasts=20ms,wake_every=2ms", 64, Some(0)),
        "replay" => ("trace=TRACE", 64, None),
        other => panic!("workload `{other}`: wanted a short form of it in this test, found none: add a line"),
    };
    Short { parameters, checks, stopwatches }
}

#[test]
fn every_cell_checks_its_data() {
    let folder = tempdir().unwrap();
    // A replay writes a file next to its trace.
    let trace = folder.path().join("sample.trace");
    let mut sample = TraceBuilder::new(4096);
    for at in 0..200 {
        let address = 0x10000 + at * 1024;
        sample.event(0, at * 10, Event::New { how: AllocFunction::Malloc, address, size: 1000 });
        if at % 2 == 0 {
            sample.event(0, at * 10 + 5, Event::Free { address });
        }
    }
    fs::write(&trace, sample.finish()).unwrap();
    for workload in allocanary_cell::workloads::ALL {
        let short = short(workload.name);
        let parameters = short.parameters.replace("TRACE", trace.to_str().unwrap());
        let workload = format!("{}:{parameters},settle=1ms", workload.name);
        for allocator in ours() {
            let answer = answer(&cell(allocator, &workload, 3));
            assert!(answer.verified >= short.checks, "{allocator} {workload}: {}", answer.verified);
            assert!(reading(&answer, "resident_bytes", Idle) > 0 && answer.operations > 0, "{allocator} {workload}");
            let Some(stopwatches) = short.stopwatches else {
                assert!(answer.latency.is_none(), "{allocator} {workload}: {:?}", answer.latency);
                continue;
            };
            assert_eq!(answer.requested(Purged), Some(0), "{allocator} {workload}");
            let latency = answer.latency.unwrap();
            // Only operations are timed, and not the building or freeing of the live set.
            let timed = answer.operations.div_ceil(u64::from(latency.every));
            assert!((timed..=timed + stopwatches).contains(&latency.timed), "{allocator} {workload}: {latency:?}");
        }
    }
}

#[test]
fn the_servers_live_set_is_the_same_for_any_number_of_threads() {
    let live = |threads| answer(&cell("system", SMALL_SERVER, threads)).requested(Idle).unwrap();
    assert_eq!(live(1), live(16));
    assert!((256 << 10..257 << 10).contains(&live(5)), "{}", live(5));
}

#[test]
fn arenas_are_as_many_as_asked_for() {
    let answer = |narenas: &str| {
        let settings = BTreeMap::from([("narenas".to_string(), narenas.to_string())]);
        let cell = cell_with("jemalloc", SMALL_SERVER, &settings);
        answer(&allocanary_rows::Cell { job: Job::workload(SMALL_SERVER, 16), ..cell })
    };
    let (one, many) = (answer("1"), answer("64"));
    assert_eq!((one.found["narenas"].as_str(), many.found["narenas"].as_str()), ("1", "64"));
    // There is one arena more than requested if a block was large enough for the arena of huge blocks.
    assert!(reading(&one, "allocator_arenas", Peak) <= 2);
    assert!(reading(&many, "allocator_arenas", Peak) >= 16);
}

#[test]
fn emulated_cores_bring_their_arenas() {
    let folder = tempdir().unwrap();
    let flags =
        format!("study --candidates jemalloc system --emulate-cpus 12,40 --repeats 1 --out-dir out --workloads {TINY}");
    assert_eq!(allocanary(folder.path(), words(&flags)).code, Some(0));
    let rows = samples(&folder.path().join("out"));
    assert_eq!(rows.len(), 4);
    for row in rows {
        let (setting, ratio) = if row.cell.allocator == "jemalloc" { ("narenas", 4) } else { ("arena_max", 8) };
        let wanted = (ratio * row.cell.cores.unwrap()).to_string();
        assert_eq!((row.error, row.cell.job.threads()), (None, row.cell.cores));
        assert_eq!((&row.cell.settings[setting], &row.measured.unwrap().found[setting]), (&wanted, &wanted));
    }
}

#[test]
fn a_study_inherits_no_configuration() {
    let folder = fake::folder();
    // The fake has another workload than jemalloc: two studies.
    for (candidate, workload) in [("jemalloc", TINY), ("fake:mode=nosy", "work")] {
        let output = command(folder.path())
            .args(words("study --threads 1 --repeats 1 --cells . --candidates"))
            .args([candidate, "--workloads", workload, "--out-dir", workload])
            .env("_RJEM_MALLOC_CONF", "narenas:1")
            .env("MIMALLOC_ALLOW_THP", "0")
            .env("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
            .finish()
            .unwrap();
        assert!(output.status.code().is_some_and(|code| code < 2), "{output:?}");
        let row = samples(&folder.path().join(workload)).remove(0);
        assert_eq!((row.cell.candidate.to_string().as_str(), row.cell.candidate.inherited.len()), (candidate, 0));
        let seen = row.error.map(|error| error.text);
        let wanted = (candidate != "jemalloc").then_some("ended with exit code 5: variables of allocators: 0");
        assert_eq!(seen.as_deref(), wanted);
    }
}

#[test]
fn without_a_verb_the_users_configuration_is_what_is_measured() {
    let folder = tempdir().unwrap();
    let flags = format!("--threads 16 --repeats 1 --out-dir out --workloads {SMALL_SERVER}");
    let mut command = command(folder.path());
    let output = command.args(words(&flags)).env("_RJEM_MALLOC_CONF", "narenas:1").finish().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{out}");
    assert!(out.starts_with("jemalloc 5."), "{out}");
    assert!(out.contains("environment: _RJEM_MALLOC_CONF=narenas:1\n"), "{out}");
    assert!(out.lines().any(|line| line.starts_with("settings in force: ") && line.contains("narenas=1")), "{out}");
    let row = samples(&folder.path().join("out")).remove(0);
    assert_eq!(row.cell.candidate.inherited["_RJEM_MALLOC_CONF"], "narenas:1");
    assert!(reading(&row.measured.unwrap(), "allocator_arenas", Peak) <= 2, "it was at work");
}
