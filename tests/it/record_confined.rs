//! Programs that forbid themselves what the recorder needs: they run as without it, and the trace says where it ends.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use allocanary_testing::programs::Running;
use allocanary_testing::skipped::skipped;
use allocanary_trace::format::TraceEnd;
use allocanary_trace::info::info;
use allocanary_trace::reader::Trace;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::record::{compiled, traces};
use super::support::allocanary;

#[test]
fn a_program_that_confines_itself_runs_as_without_and_its_trace_ends_there() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "confined") else { return };
    let ways: &[&str] = if cfg!(target_arch = "x86_64") { &["filter", "strict", "tsc"] } else { &["filter", "strict"] };
    for way in ways {
        let alone = Command::new(&program).arg(way).finish().unwrap();
        if !alone.status.success() {
            skipped(format_args!("{way}: this kernel refuses it"));
            continue;
        }
        for stacks in [["--stack-sample", "off"], ["--stack-sample", "all"]] {
            let out = format!("traces-{way}-{}", stacks[1]);
            let words = [&["record", "-o", &out][..], &stacks, &["--", program.to_str().unwrap(), way]].concat();
            let ran = allocanary(folder.path(), words);
            assert_eq!((ran.code, ran.out.contains("done")), (Some(0), true), "{way}: {ran:?}");
            assert!(ran.err.contains("asked to limit its own system calls"), "{way}: {}", ran.err);
            let found = info(&Trace::open(&traces(&folder.path().join(out))[0]).unwrap()).unwrap();
            assert_eq!((found.header.state, found.header.attached), (TraceEnd::Confined, false), "{way}");
            // What came before is there: 300,000 pairs, of which the last may still be in the thread's chunk.
            assert!((500_000..700_000).contains(&found.merged.events), "{way}: {}", found.merged.events);
        }
    }
}

/// A recorder that was put in later is in the program's way as well.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_running_program_that_is_recorded_may_confine_itself() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "confined") else { return };
    for way in ["filter", "strict", "tsc"] {
        let mut running = Running::start(Command::new(&program).args([way, "waits"]));
        running.counts();
        let out = folder.path().join(way);
        let mut command = Command::new(env!("CARGO_BIN_EXE_allocanary"));
        command.args(["record", "--attach", &running.pid().to_string(), "-o"]).arg(&out);
        let mut recording = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(recording.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("recording: ")), "{way}: it says when it has begun");
        running.go_on("");
        assert_eq!(running.rest(), "done\n", "{way}");
        drop(running);
        let said: Vec<String> = said.map_while(Result::ok).collect();
        assert!(recording.wait().unwrap().success(), "{way}: {said:?}");
        let found = info(&Trace::open(&traces(&out)[0]).unwrap()).unwrap();
        assert_eq!((found.header.state, found.header.attached), (TraceEnd::Confined, true), "{way}");
        assert!((500_000..700_000).contains(&found.merged.events), "{way}: {}", found.merged.events);
    }
}

#[test]
fn a_question_about_filters_ends_no_recording() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "confined") else { return };
    let ran = allocanary(folder.path(), ["record", "-o", "traces", "--", program.to_str().unwrap(), "asks"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let found = info(&Trace::open(&traces(&folder.path().join("traces"))[0]).unwrap()).unwrap();
    assert!(found.header.state != TraceEnd::Confined && found.merged.events > 1_000_000, "{:?}", found.merged);
}

/// The profile reads the time for a new thread, and for each sample.
#[test]
fn a_sampled_program_that_confines_itself_runs_as_without() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "confined") else { return };
    for way in ["filter", "strict", "tsc"] {
        let run = |preload: Option<&str>| {
            let mut command = Command::new(&program);
            command.arg(way);
            if let Some(preload) = preload {
                command.env("LD_PRELOAD", preload).env("ALLOCANARY_PRELOAD", "profile=16KiB");
            }
            command.finish().unwrap()
        };
        let alone = run(None);
        let sampled = run(Some(env!("CARGO_BIN_EXE_preload-profile")));
        assert_eq!((alone.status, alone.stdout), (sampled.status, sampled.stdout), "{way}");
    }
}

/// A shell would say so of its own child. The exit code is the program's.
#[test]
fn a_signal_that_ended_the_program_is_named() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "confined") else { return };
    let after = format!("{} asks; kill -SEGV $$", program.display());
    for (script, has_trace) in [(after.as_str(), true), ("kill -SEGV $$", false)] {
        let ran = allocanary(folder.path(), ["record", "-o", "traces", "--", "sh", "-c", script]);
        assert_eq!(ran.code, Some(128 + 11), "{ran:?}");
        assert!(ran.err.contains("sh: was ended by signal 11 (SIGSEGV)"), "{}", ran.err);
        let made = traces(&folder.path().join("traces"));
        assert!(!has_trace || !made.is_empty(), "{made:?}");
        assert!(!ran.err.contains("static or set-user-id"), "{}", ran.err);
    }
}
