//! `allocanary run` with settings of a program's runtime: Go's are read back in its process.

use std::fs;
use std::process::Command;

use allocanary_testing::skipped::skipped;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{allocanary, samples, words};

/// It prints its runtime's values, and changes one setting itself if requested.
const PROGRAM: &str = r#"package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		debug.SetGCPercent(300)
	}
	fmt.Println("ready", runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1))
	time.Sleep(time.Hour)
}
"#;

#[test]
fn a_go_program_takes_the_settings_of_its_runtime_and_one_that_sets_its_own_is_a_failure() {
    let folder = tempdir().unwrap();
    let source = folder.path().join("sleeper.go");
    fs::write(&source, PROGRAM).unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-buildvcs=false", "-o"]).arg(folder.path().join("sleeper")).arg(&source);
    let Ok(built) = go.env("GOPROXY", "off").finish() else { return skipped("there is no go here") };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let run = |out: &str, candidates: &str, program: &str| {
        let flags = format!(
            "run --ready line:ready --settle 1ms --repeats 1 --out-dir {out} --candidates {candidates} -- {program}"
        );
        allocanary(folder.path(), words(&flags))
    };
    let ran = run("a", "own own:gogc=off,memlimit=64MiB,maxprocs=1", "./sleeper");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("a"));
    let set = rows.iter().find(|row| !row.cell.settings.is_empty()).unwrap().measured.as_ref().unwrap();
    let found: Vec<String> = set.found.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(found, ["gogc=off", "maxprocs=1", "memlimit=67108864"]);
    assert!(set.unproven.is_empty() && set.version.starts_with("Go 1."), "{set:?}");
    let given: Vec<String> = set.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(given, ["GOGC=off", "GOMAXPROCS=1", "GOMEMLIMIT=67108864"]);
    // The runtime's own values are read, and not only its environment.
    let ran = run("b", "own own:gogc=200", "./sleeper itself");
    let errors: Vec<String> =
        samples(&folder.path().join("b")).iter().filter_map(|row| Some(row.error.as_ref()?.text.clone())).collect();
    let wanted =
        "gogc: wanted 200, found 300 in the runtime of the process with the most memory: the program sets it itself";
    assert_eq!(errors, [wanted], "{ran:?}");
    let ran = run("c", "own own:xss=1MiB", "./sleeper");
    let said = "candidate `own:xss=1MiB`: xss: it is a setting of Java, and ./sleeper has Go 1.";
    assert!(ran.code == Some(2) && ran.err.contains(said), "{ran:?}");
    assert!(!folder.path().join("c").exists());
}
