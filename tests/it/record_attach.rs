//! `allocanary record --attach`: a program that runs is recorded for some time, and notices nothing; and what is refused.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use allocanary_testing::programs::{Running, compiled};
use allocanary_trace::info::info;
use allocanary_trace::reader::Trace;
use tempfile::{TempDir, tempdir};

use super::support::{Ran, allocanary, words};

fn record(folder: &Path, line: &str) -> Ran {
    allocanary(folder, words(&format!("record {line}")))
}

/// A program whose threads allocate, and check what is in their blocks.
fn start(flags: &[&str], arguments: &[&str]) -> Option<(Running, TempDir)> {
    let folder = tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/inside/tests/programs/busy.c");
    let program = compiled(&source, folder.path(), &[&["-pthread"], flags].concat())?;
    let mut running = Running::start(Command::new(program).args(arguments));
    running.counts();
    Some((running, folder))
}

/// MiB of address space that a process has.
fn address_space(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

fn trace_of(folder: &Path) -> Trace {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut traces = entries.filter(|path| path.extension().is_some_and(|ending| ending == "trace"));
    Trace::open(&traces.next().expect("a trace")).unwrap()
}

#[test]
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
fn a_running_program_is_recorded_twice_and_notices_nothing() {
    let Some((mut running, folder)) = start(&[], &["forks"]) else { return };
    let pid = running.pid();
    let mut spaces = Vec::new();
    for number in 0..2 {
        let out = folder.path().join(format!("traces-{number}"));
        let ran = record(folder.path(), &format!("--attach {pid} --for 500ms -o {}", out.display()));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.err.contains("words put back; the recorder's library stays"), "{}", ran.err);
        let trace = trace_of(&out);
        assert!(trace.header.attached && trace.header.taken_out && trace.damage().is_none());
        let info = info(&trace).unwrap();
        assert!(info.allocations > 1000 && info.merged.before > 0, "{:?}", info.merged);
        assert_eq!((info.merged.strays, info.merged.damage.len()), (0, 0), "{:?}", info.merged);
        let who = allocanary(folder.path(), words(&format!("who {}", trace.path().display())));
        for site in ["site_small", "site_zeroed", "site_grown"] {
            assert!(who.out.contains(site), "{}", who.out);
        }
        spaces.push(address_space(pid));
    }
    // The mapping of a trace was 1 GiB. By now the program's threads have their arenas.
    assert!(spaces[1] - spaces[0] < 128, "address space after each recording, in MiB: {spaces:?}");
    running.go_on("");
    let counts = running.counts();
    assert!(counts["wrong"] == 0 && counts["rounds"] > 0 && counts["forked"] > 0, "{counts:?}");
}

/// The recorder of a command that was killed goes on. The next command says so, and `--detach` takes it out.
#[test]
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
fn the_recorder_of_a_killed_command_is_taken_out_by_hand() {
    let Some((mut running, folder)) = start(&[], &[]) else { return };
    let pid = running.pid();
    let traces = folder.path().join("traces");
    let mut command = Command::new(env!("CARGO_BIN_EXE_allocanary"));
    command.args(["record", "--attach", &pid.to_string(), "--for", "600s", "-o"]).arg(&traces);
    let mut killed = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(killed.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("recording: ")), "it says when it has begun");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let again = record(folder.path(), &format!("--attach {pid} --for 1s"));
    assert!(
        again.code == Some(2) && again.err.contains("a recorder was put into it already, and records"),
        "{again:?}"
    );
    let detached = record(folder.path(), &format!("--detach {pid}"));
    assert!(detached.code == Some(0) && detached.err.contains("words put back"), "{detached:?}");
    let nothing = record(folder.path(), &format!("--detach {pid}"));
    assert!(nothing.code == Some(2) && nothing.err.contains("does not record"), "{nothing:?}");
    // What was written until then can be read, and the process can be recorded again.
    assert!(info(&trace_of(&traces)).unwrap().allocations > 0);
    let anew =
        record(folder.path(), &format!("--attach {pid} --for 200ms -o {}", folder.path().join("anew").display()));
    assert_eq!(anew.code, Some(0), "{anew:?}");
    running.go_on("");
    assert_eq!(running.counts()["wrong"], 0);
}

#[test]
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
fn what_cannot_be_recorded_is_refused_with_the_reason() {
    if let Some((mut running, folder)) = start(&["-static"], &[]) {
        let ran = record(folder.path(), &format!("--attach {} --for 1s", running.pid()));
        assert!(ran.code != Some(0) && ran.err.contains("static"), "{}", ran.err);
        running.go_on("");
        assert_eq!(running.counts()["wrong"], 0);
    }
    let Some((mut running, folder)) = start(&[], &[]) else { return };
    let ran = record(folder.path(), &format!("--detach {}", running.pid()));
    assert!(ran.code != Some(0) && ran.err.contains("no recorder of this installation"), "{}", ran.err);
    let nobody = record(folder.path(), "--attach 1073741823 --for 1s");
    assert!(nobody.code != Some(0), "{}", nobody.err);
    running.go_on("");
    assert_eq!(running.counts()["wrong"], 0);
}
