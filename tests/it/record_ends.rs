//! How a recording ends: by a signal, by its deadline, by a failure. The traces are cut and named all the same.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use allocanary_trace::info::info;
use allocanary_trace::reader::Trace;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::record::{compiled, traces};
use super::run_bad::assert_gone;
use super::support::{Ran, allocanary, command};

/// Waits until there is a file.
pub fn wait_for(path: &Path, child: &mut Child) {
    let until = Instant::now() + Duration::from_secs(120);
    while !path.exists() {
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "{}: never made", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn kill(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// The traces are there, cut to their length, and named.
fn assert_told(folder: &Path, ran: &Ran) {
    let found = traces(&folder.join("traces"));
    assert!(!found.is_empty() && ran.err.contains("next: allocanary who"), "{ran:?}");
    for trace in found {
        assert!(trace.metadata().unwrap().len() < 64 << 20, "{}", trace.display());
        assert!(ran.err.contains(trace.file_name().unwrap().to_str().unwrap()), "{}: {}", trace.display(), ran.err);
    }
}

/// Whether a process has a handler for a signal.
fn catches(pid: u32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

/// The recorder reads the process's memory every 100 ms, by calls that are cancellation points. A thread must not be
/// cancelled in them.
#[test]
fn a_thread_that_shall_be_cancelled_is_so_where_it_asks() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "cancel") else { return };
    let ran = allocanary(folder.path(), ["record", "-o", "traces", "--", program.to_str().unwrap()]);
    assert!(ran.code == Some(0) && ran.out.contains("cancelled where it asked"), "{ran:?}");
    let trace = traces(&folder.path().join("traces")).remove(0);
    let info = info(&Trace::open(&trace).unwrap()).unwrap();
    assert!(info.merged.strays == 0 && info.allocations > 1000 && info.most_resident > 0, "{:?}", info.merged);
}

/// A signal that is sent only to `record` is passed on to the program, which decides.
#[test]
fn sigterm_and_sighup_reach_the_program() {
    for signal in ["TERM", "HUP"] {
        let folder = tempdir().unwrap();
        let text = format!("trap 'echo ended; exit 7' {signal}; touch up; for i in $(seq 400); do sleep 0.05; done");
        let mut command = command(folder.path());
        // A shell cannot trap what is ignored when it starts, as SIGHUP is under nohup.
        command.args(["record", "-o", "traces", "--", "env", "--default-signal=TERM,HUP", "sh", "-c", &text]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        wait_for(&folder.path().join("up"), &mut child);
        // The handlers are set right after the program's start, SIGTERM's before SIGHUP's.
        while !catches(child.id(), libc::SIGHUP) {
            std::thread::sleep(Duration::from_millis(10));
        }
        kill(&format!("-{signal}"), &child);
        let ran: Ran = child.finish().unwrap().into();
        assert_eq!((ran.code, ran.out.as_str()), (Some(7), "ended\n"), "{signal}: {}", ran.err);
        assert_told(folder.path(), &ran);
    }
}

#[test]
fn a_deadline_ends_a_program_in_the_terminal_too() {
    let folder = tempdir().unwrap();
    let sleep = format!("84.{}", std::process::id());
    let begun = Instant::now();
    let text = format!("sleep {sleep} & sleep {sleep}");
    let ran = allocanary(folder.path(), ["record", "-o", "traces", "--run-timeout", "5s", "--", "sh", "-c", &text]);
    assert!(begun.elapsed() < Duration::from_secs(80), "it was not killed");
    assert!(
        ran.code == Some(2) && ran.err.contains("did not end within its deadline of 5 s (--run-timeout)"),
        "{ran:?}"
    );
    assert_told(folder.path(), &ran);
    assert_gone(&format!("sleep {sleep}"));
}

#[test]
fn a_failed_service_keeps_its_trace() {
    let folder = tempdir().unwrap();
    // The service starts no process after its line, because a process that is killed while its recorder starts has no
    // trace.
    let flags = ["record", "-o", "traces", "--ready", "line:up", "--load", "sleep 0.5; exit 3", "--", "sh", "-c"];
    let ran = allocanary(folder.path(), flags.iter().chain(&["mkfifo hold; echo up; : <hold"]));
    assert!(ran.code == Some(2) && ran.err.contains("--load `sleep 0.5; exit 3` ended with exit code 3"), "{ran:?}");
    assert_told(folder.path(), &ran);
}

/// The command after the program still cleans up.
#[test]
fn ctrl_c_keeps_the_trace_of_a_service_and_runs_the_command_after_it() {
    let folder = tempdir().unwrap();
    let mut command = command(folder.path());
    command.args(["record", "-o", "traces", "--ready", "line:up", "--load", "sleep 0.5; touch loading; sleep 86"]);
    command.args(["--after", "sleep 0.3; touch cleaned", "--", "sh", "-c", "mkfifo hold; echo up; : <hold"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&folder.path().join("loading"), &mut child);
    kill("-INT", &child);
    let ran: Ran = child.finish().unwrap().into();
    assert!(ran.code == Some(130) && ran.err.contains("interrupted"), "{ran:?}");
    assert!(!ran.err.contains("deadline") && !ran.err.contains("--load"), "{}", ran.err);
    assert_told(folder.path(), &ran);
    assert!(folder.path().join("cleaned").exists(), "--after was cut off");
}

/// The check in a study file is also made if the program is only recorded.
#[test]
fn the_check_of_a_file_counts() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("file.toml"), "[program]\ncommand = ['echo', 'some']\ncheck = 'grep other'\n")
        .unwrap();
    let ran = allocanary(folder.path(), ["record", "-o", "traces", "--program", "file.toml"]);
    assert!(ran.code == Some(2) && ran.err.contains("--check `grep other`"), "{ran:?}");
    assert_told(folder.path(), &ran);
}

/// The loader ignores a library that it does not find: another allocator than the user asked for would be recorded.
#[test]
fn a_preload_that_is_not_found_is_refused() {
    let folder = tempdir().unwrap();
    let record = |preload: &str| -> Ran {
        let mut command = command(folder.path());
        command.args(["record", "-o", "traces", "--", "true"]).env("LD_PRELOAD", preload).finish().unwrap().into()
    };
    for preload in ["preload-jemalloc", "/no/such/lib.so", "libm.so.6:preload-jemalloc"] {
        let ran = record(preload);
        let name = preload.rsplit(':').next().unwrap();
        assert!(ran.code == Some(2) && ran.err.contains(&format!("LD_PRELOAD: {name}: ")), "{preload}: {ran:?}");
        assert!(!folder.path().join("traces").exists(), "{preload}");
    }
    for preload in ["", "libm.so.6", env!("CARGO_BIN_EXE_preload-jemalloc")] {
        assert_eq!(record(preload).code, Some(0), "{preload}");
    }
}
