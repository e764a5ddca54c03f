//! `allocanary build` as a user runs it: a real build of the version that this workspace itself links, whose crate is
//! already downloaded.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{Ran, command, samples};

/// The command, with the user's cargo and an empty cache.
fn build(cache: &Path) -> Command {
    let mut command = command(cache);
    command.arg("build").env("XDG_CACHE_HOME", cache);
    let names = ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];
    command.envs(names.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command
}

#[test]
fn a_version_is_built_once_tried_and_removed() {
    let cache = tempdir().unwrap();
    let build = |arguments: &[&str]| {
        let output = build(cache.path()).args(arguments).finish().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = build(&["mimalloc@3.3.2", "--offline"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("it reports version 3.3.2"), "{out}");
    assert!(err.contains("1 of 1: building mimalloc@3.3.2 from the crate libmimalloc-sys 0.1.49"), "{err}");

    // The library exists, so nothing is built.
    let (code, again, err) = build(&["mimalloc"]);
    assert_eq!((code, again, err.as_str()), (Some(0), out, ""));
    let folder = cache.path().join("allocanary/builds/mimalloc@3.3.2");
    let record: Value = serde_json::from_slice(&fs::read(folder.join("built.json")).unwrap()).unwrap();
    assert_eq!(record["bytes"], fs::metadata(folder.join("lib.so")).unwrap().len());

    // It is a candidate by its name.
    let mut run = command(cache.path());
    run.env("XDG_CACHE_HOME", cache.path()).args([
        "run",
        "--repeats",
        "1",
        "--out-dir",
        "out",
        "--candidates",
        "mimalloc@3.3.2",
    ]);
    let ran: Ran = run.args(["--", "sleep", "0.3"]).finish().unwrap().into();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let row = samples(&cache.path().join("out")).remove(0);
    assert_eq!((row.cell.candidate.to_string().as_str(), &row.error), ("mimalloc@3.3.2", &None));

    let (code, out, _) = build(&["--prune", "mimalloc@3.3"]);
    assert!(code == Some(0) && !folder.exists(), "{out}");

    let (code, _, err) = build(&["mimalloc@3.3.2", "jemalloc@6"]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("jemalloc@6: no published crate bundles that version") && err.contains("jemalloc@5.3.1"),
        "{err}"
    );
    assert!(!folder.exists(), "a wrong name is told before anything is built");
}

/// There is no crate: the folder of vendored crates is empty.
#[test]
fn a_build_that_fails_tells_the_last_lines_and_keeps_nothing() {
    let cache = tempdir().unwrap();
    let empty = cache.path().join("vendored");
    fs::create_dir(&empty).unwrap();
    let output = build(cache.path()).args(["mimalloc@3.3.2", "--vendored"]).arg(&empty).finish().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("mimalloc@3.3.2: cargo build failed") && err.contains("no matching package"), "{err}");
    assert!(err.contains("build-") && !cache.path().join("allocanary/builds/mimalloc@3.3.2/lib.so").exists(), "{err}");
}
