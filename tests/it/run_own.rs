//! `allocanary run` with a Rust program that brings its own jemalloc, by that allocator's own crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_study::program::huge_pages;
use allocanary_sys::sys::affinity;
use allocanary_testing::skipped::skipped;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::run::run;
use super::support::{allocanary, samples, this_build};

/// The example `own-jemalloc`. `cargo test` has built it; `cargo test --test it` has not, and it is built here.
fn program() -> PathBuf {
    let profile = Path::new(env!("CARGO_BIN_EXE_allocanary")).parent().unwrap();
    let program = profile.join("examples/own-jemalloc");
    if !program.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--example", "own-jemalloc", "--no-default-features"])
            .args(["--features", env!("ALLOCANARY_FEATURES"), "--profile", &this_build().profile])
            .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "--target-dir"])
            .arg(profile.parent().unwrap())
            .finish()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    program
}

/// What a cell's run wrote to this file.
fn said(cells: &Path, candidate: &str, file: &str) -> String {
    let name = format!("-{candidate}-0");
    let mut all = fs::read_dir(cells).unwrap().flatten().map(|cell| cell.path());
    let cell = all.find(|cell| cell.to_string_lossy().ends_with(&name));
    fs::read_to_string(cell.unwrap_or_else(|| panic!("no {name} in {}", cells.display())).join(file)).unwrap()
}

fn is_measured_by_its_own_settings(program: &Path) {
    let folder = tempdir().unwrap();
    let program = program.to_str().unwrap();
    // No preload, not even of the same allocator, because the Rust code would not call it.
    for candidate in ["system", "jemalloc", "mimalloc:allow_thp=0"] {
        let ran = run(folder.path(), &format!("--repeats 1 --candidates own {candidate}"), &[program]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let named = format!("candidate `{candidate}`: {program} has jemalloc");
        assert!(ran.err.contains(&named) && ran.err.contains("linked in"), "{}", ran.err);
        assert!(ran.err.contains("a preload would serve its C code only: leave out --candidates"), "{}", ran.err);
    }
    let ran = allocanary(folder.path(), ["run", "--repeats", "1", "--out-dir", "out", "--", program]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("so only its own allocator is measured: own own:narenas=1 own:narenas=1,tcache=false"));
    let rows = samples(&folder.path().join("out"));
    // If the host gives huge pages without advice, a candidate without them is added.
    assert_eq!(rows.len(), 3 + usize::from(huge_pages::are_unasked()));
    let cells = folder.path().join("out/cells");
    let cores = said(&cells, "own", "stderr");
    assert!(cores.ends_with(", tcache true\n"), "{cores}");
    for (candidate, conf, found) in [
        ("own", None, cores.as_str()),
        ("own:narenas=1", Some("narenas:1"), "narenas 1, tcache true\n"),
        ("own:narenas=1,tcache=false", Some("narenas:1,tcache:false"), "narenas 1, tcache false\n"),
    ] {
        let row = rows.iter().find(|row| row.cell.candidate == candidate.into()).unwrap();
        assert_eq!(row.error, None, "{candidate}");
        let answer = row.measured.as_ref().unwrap();
        // It gets only the variable that this build reads; the program itself reads back the value.
        let given = answer.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        assert!(given.eq(conf.map(|conf| ("_RJEM_MALLOC_CONF", conf))), "{candidate}: {:?}", answer.environment);
        assert!(!answer.environment.contains_key("LD_PRELOAD"));
        let safe: String = candidate.chars().map(|c| if ":=,".contains(c) { '_' } else { c }).collect();
        assert_eq!(said(&cells, &safe, "stderr"), found, "{candidate}");
        // The program reports it to this test, and not to the command, which therefore cannot prove it.
        assert_eq!(answer.unproven.contains_key("narenas"), conf.is_some(), "{candidate}");
        assert!(answer.version.contains("jemalloc"), "{candidate}: {}", answer.version);
    }
}

#[test]
fn a_rust_program_with_its_own_jemalloc_is_measured_by_its_own_settings() {
    is_measured_by_its_own_settings(&program());
}

/// It sees the cores of this host, and its jemalloc has the arenas of the other one.
#[test]
fn its_own_jemalloc_has_the_arenas_of_an_emulated_host() {
    let folder = tempdir().unwrap();
    let flags = "--repeats 1 --candidates own --emulate-cpus 64";
    let ran = run(folder.path(), flags, &[program().to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.out.contains("64 cores"), "{}", ran.out);
    let answer = samples(&folder.path().join("out")).remove(0).measured.unwrap();
    assert_eq!(answer.environment.get("_RJEM_MALLOC_CONF").map(String::as_str), Some("narenas:256"));
    assert_eq!(answer.notes.get("cores_seen"), Some(&u64::from(affinity())));
    let said = said(&folder.path().join("out/cells"), "own", "stderr");
    assert!(said.starts_with("narenas 256,"), "{said}");
}

#[test]
fn and_so_is_one_without_symbols() {
    let folder = tempdir().unwrap();
    let stripped = folder.path().join("stripped");
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(program()).finish();
    match strip {
        Ok(strip) if strip.status.success() => is_measured_by_its_own_settings(&stripped),
        Ok(strip) => skipped(String::from_utf8_lossy(&strip.stderr)),
        Err(error) => skipped(format_args!("strip: {error}")),
    }
}
