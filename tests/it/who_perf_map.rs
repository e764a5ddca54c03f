//! Code that a program makes while it runs: stacks go through it, and the perf map next to the trace names it.

use std::fs;
use std::path::{Path, PathBuf};

use allocanary_testing::skipped::skipped;
use allocanary_trace::reader::Trace;
use tempfile::tempdir;

use super::record::{compiled, traces};
use super::support::{Ran, allocanary};

/// A recorded program, whose map goes away at the end.
struct Recorded {
    ran: Ran,
    trace: PathBuf,
    map: PathBuf,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.map);
    }
}

fn record(folder: &Path, program: &Path, out: &str, argument: &str) -> Recorded {
    let ran = allocanary(folder, ["record", "-o", out, "--", program.to_str().unwrap(), argument]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let [trace] = &traces(&folder.join(out))[..] else { panic!("one trace: {}", ran.err) };
    let header = Trace::open(trace).unwrap().header.clone();
    assert_eq!((header.stacks, header.broken), (1, 0), "each stack goes on to its end");
    Recorded { ran, trace: trace.clone(), map: format!("/tmp/perf-{}.map", header.pid).into() }
}

/// The answer of `who` about a trace: the sites with their live blocks, and the notes.
fn who(folder: &Path, trace: &Path) -> (Vec<(String, u64)>, String) {
    let ran = allocanary(folder, ["who", trace.to_str().unwrap(), "--at", "peak", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let of = |site: &serde_json::Value| (site["name"].as_str().unwrap().into(), site["blocks"].as_u64().unwrap());
    (value["sites"].as_array().unwrap().iter().map(of).collect(), ran.out)
}

#[test]
fn functions_that_a_runtime_calls_through_code_of_its_own_are_named() {
    if cfg!(not(all(target_arch = "x86_64", target_env = "gnu"))) {
        return skipped("stacks need x86-64 and glibc");
    }
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let Some(program) = compiled(folder, "trampoline") else { return };
    let recorded = record(folder, &program, "traces", "map");
    assert!(
        recorded.ran.err.contains(".trace.perfmap: the names of code that a runtime has made"),
        "{}",
        recorded.ran.err
    );
    // The map in /tmp is not read; the copied map is moved together with the trace.
    fs::remove_file(&recorded.map).unwrap();
    let moved = folder.join("moved.trace");
    fs::rename(&recorded.trace, &moved).unwrap();
    let (without, said) = who(folder, &moved);
    assert!(said.contains("2 stacks pass through code that is in no file and that no perf map names"), "{said}");
    assert!(!without.iter().any(|(name, _)| name.contains("app.py")));
    fs::rename(format!("{}.perfmap", recorded.trace.display()), folder.join("moved.trace.perfmap")).unwrap();
    let (sites, said) = who(folder, &moved);
    for name in ["keeps:/srv/app.py", "drops:/srv/app.py"] {
        assert!(sites.contains(&(name.into(), 4096)), "{name}: {said}");
    }
    assert!(!said.contains("through code that is in no file"), "{said}");
    // The same for a comparison.
    let json = folder.join("before.json");
    fs::write(&json, &said).unwrap();
    let line = ["who", moved.to_str().unwrap(), "--at", "peak", "--against", json.to_str().unwrap(), "--json"];
    let ran = allocanary(folder, line);
    assert!(ran.code == Some(0) && ran.out.contains("keeps:/srv/app.py"), "{ran:?}");
}

#[test]
fn a_program_without_a_map_has_none_beside_its_trace() {
    if cfg!(not(all(target_arch = "x86_64", target_env = "gnu"))) {
        return skipped("stacks need x86-64 and glibc");
    }
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let Some(program) = compiled(folder, "trampoline") else { return };
    let recorded = record(folder, &program, "traces", "none");
    assert!(!recorded.ran.err.contains("perfmap"), "{}", recorded.ran.err);
    assert_eq!(fs::read_dir(folder.join("traces")).unwrap().count(), 1);
}
