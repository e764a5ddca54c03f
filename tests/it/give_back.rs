//! `allocanary give-back` as a user runs it: a forecast, a call, a refusal, a log.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use allocanary_testing::programs::{Running, compiled};
use allocanary_testing::skipped::skipped;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use super::support::{Ran, allocanary, words};

fn give_back(line: &str) -> Ran {
    allocanary(Path::new("/"), words(&format!("give-back {line}")))
}

/// A program that has freed most of its memory and waits for a line.
fn start(flags: &[&str]) -> Option<(Running, TempDir)> {
    let folder = tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/inside/tests/programs/holds.c");
    let program = compiled(&source, folder.path(), flags)?;
    let mut running = Running::start(Command::new(program).arg("poll"));
    running.counts();
    Some((running, folder))
}

#[test]
fn a_forecast_a_call_and_a_line_of_the_log() {
    let Some((mut running, folder)) = start(&[]) else { return };
    let pid = running.pid();
    let dry = give_back(&format!("{pid} --dry-run"));
    assert_eq!((dry.code, dry.err.as_str()), (Some(0), ""));
    assert!(dry.out.starts_with(&format!("process {pid} (holds): ")), "{}", dry.out);
    assert!(dry.out.contains("glibc: malloc_trim(0) would give back "), "{}", dry.out);
    assert!(dry.out.contains(&format!("by thread {pid}, which waits in poll")), "{}", dry.out);

    let unasked = give_back(&pid.to_string());
    assert_eq!(unasked.code, Some(2));
    assert!(unasked.err.contains("Wanted --yes"), "{}", unasked.err);

    let log = folder.path().join("log");
    let done = give_back(&format!("{pid} --yes --json --log {}", log.display()));
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
    let account: Value = serde_json::from_str(&done.out).unwrap();
    let call = &account["calls"][0];
    assert_eq!((&account["pid"], &call["thread"], &call["wait"]), (&pid.into(), &pid.into(), &"poll".into()));
    assert!(account["after_bytes"].is_u64() && call["error"].is_null(), "{account}");

    let line = fs::read_to_string(&log).unwrap();
    assert!(line.contains(&format!(" pid={pid} name=holds calls=malloc_trim(0) ")), "{line}");
    assert!(line.ends_with(" result=done\n") && line.lines().count() == 1, "{line}");
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    running.go_on("");
    assert_eq!(running.counts()["ended"], 0);
}

/// A program with its own blocks in mapped memory: the command does not know what would be given back, and this is not
/// a success.
#[test]
fn an_allocator_that_is_not_known_is_not_nothing() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("own.c");
    let text = "#include <poll.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
                int main(void) { memset(mmap(0, 50 << 20, 3, 34, -1, 0), 1, 50 << 20); printf(\"pid=%d\\n\", getpid());\n\
                fflush(stdout); for (;;) poll(0, 0, -1); }\n";
    fs::write(&source, text).unwrap();
    let Some(program) = compiled(&source, folder.path(), &["-static"]) else { return };
    let mut running = Running::start(&mut Command::new(program));
    running.counts();
    for flags in ["--dry-run", "--yes"] {
        let ran = give_back(&format!("{} {flags}", running.pid()));
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        assert!(ran.out.contains("What it would give back is not known: "), "{}", ran.out);
    }
    running.kill();
}

/// Debian's tcmalloc.
#[test]
fn tcmalloc_gives_back_its_free_spans() {
    let library = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4";
    if !Path::new(library).exists() {
        return skipped(format_args!("{library} is not installed"));
    }
    let folder = tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/inside/tests/programs/holds.c");
    let Some(program) = compiled(&source, folder.path(), &[]) else { return };
    let mut running = Running::start(Command::new(program).arg("poll").env("LD_PRELOAD", library));
    running.counts();
    let done = give_back(&format!("{} --yes --json", running.pid()));
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    let account: Value = serde_json::from_str(&done.out).unwrap();
    let called = account["calls"].as_array().unwrap().iter().find(|call| call["allocator"] == "tcmalloc");
    // Of glibc's heap beside it nothing is forecast, and so nothing of both together.
    assert!(called.is_some_and(|call| call["reclaimable_bytes"].as_u64() > Some(1 << 20)), "{account}");
    running.go_on("");
    assert_eq!(running.counts()["ended"], 0);
}

#[test]
fn what_cannot_be_called_is_refused_and_left_as_it_is() {
    let Some((mut running, folder)) = start(&["-static", "-s"]) else { return };
    let pid = running.pid();
    // A dry run prints the same as the call.
    let dry = give_back(&format!("{pid} --dry-run"));
    assert_eq!(dry.code, Some(1));
    assert!(dry.out.contains("refused: ") && dry.out.contains("found it in no symbol table"), "{}", dry.out);
    let log = folder.path().join("log");
    let refused = give_back(&format!("{pid} --yes --log {}", log.display()));
    assert_eq!(refused.code, Some(1));
    assert!(refused.out.contains("found it in no symbol table"), "{}", refused.out);
    let line = fs::read_to_string(&log).unwrap();
    assert!(line.contains(" after_bytes=- ") && line.contains(" result=refused error=\""), "{line}");
    let set = give_back(&format!("{pid} --yes --settings background_thread=true"));
    assert_eq!(set.code, Some(1));
    assert!(set.err.contains("`mallctl` of jemalloc"), "{}", set.err);
    running.go_on("");
    assert_eq!(running.counts()["ended"], 0);
}

#[test]
fn bad_input_is_named() {
    let error = |line: &str| {
        let ran = give_back(line);
        assert_eq!(ran.code, Some(2), "{line}: {}", ran.err);
        ran.err
    };
    let own = std::process::id();
    assert!(error("no-such-process --dry-run").contains("no process has the name `no-such-process`"));
    assert!(error("1073741823 --yes").contains("there is none, or it has ended"));
    assert!(error(&format!("{own} --lock-timeout soon")).contains("--lock-timeout: wanted a time"));
    assert!(error(&format!("{own} --yes --every 1s --while kept")).contains("found `kept`"));
    assert!(error(&format!("{own} --every 1s")).contains("--every needs --yes"));
    assert!(error(&format!("{own} --yes --settings narenas=1")).contains("found `narenas=1`"));
}
