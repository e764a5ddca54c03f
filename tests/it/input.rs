//! Bad input: each gets exit code 2, one line that names what is wrong and what to do, and nothing is written.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use allocanary_sys::proc::Stat;
use tempfile::tempdir;

use super::support::{Ran, TINY, allocanary, golden_path, study, words};

/// One line on standard error, nothing on standard output.
fn assert_refused(what: &str, ran: &Ran, said: &[&str]) {
    assert_eq!(ran.code, Some(2), "{what}: {ran:?}");
    assert_eq!(ran.out, "", "{what}");
    assert!(ran.err.starts_with("allocanary: "), "{what}: {}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{what}: {}", ran.err);
    for said in said {
        assert!(ran.err.contains(said), "{what}: wanted `{said}` in {}", ran.err);
    }
}

#[test]
fn what_does_not_exist_is_named_with_the_nearest_names() {
    let folder = tempdir().unwrap();
    for (line, said) in [
        ("study --candidates jemaloc", "no candidate `jemaloc`; perhaps jemalloc"),
        ("study --plan --candidates qqq", "no candidate `qqq`; there are jemalloc, mimalloc, system"),
        ("study --candidates jemalloc:narena=1", "jemalloc has no setting `narena`; perhaps narenas"),
        ("study --candidates system:arenas=1", "system has no setting `arenas`; perhaps arena_test or arena_max"),
        ("study --candidates mimalloc:purge-delay=1", "perhaps purge_delay"),
        ("study --workloads serve", "no workload `serve`; perhaps server"),
        ("--workloads smal", "no workload `smal`; perhaps small"),
        ("study --workloads server:lives=1", "workload `server` has no parameter `lives`; perhaps live"),
        ("study defalt", "no study `defalt`; perhaps default"),
        ("list meter", "nothing to list by the name `meter`; perhaps meters"),
        ("report rows.jsonl --format markdwn", "no format `markdwn`; perhaps markdown"),
    ] {
        assert_refused(line, &allocanary(folder.path(), words(line)), &[said]);
    }
    // Rows may have metrics of their own, so that they are read first.
    let rows = golden_path("rows.jsonl").display().to_string();
    for (flag, said) in [
        ("--metrics=residen", "no metric `residen`; perhaps resident"),
        ("--gate=troughput=5%", "no metric `troughput`; perhaps throughput"),
    ] {
        assert_refused(flag, &allocanary(folder.path(), ["compare", &rows, &rows, flag]), &[said]);
        assert_refused(flag, &allocanary(folder.path(), ["compare", "a", &rows, flag]), &["a: reading rows: No such"]);
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing may be left behind");
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let folder = tempdir().unwrap();
    for (line, said) in [
        ("study --candidates jemalloc:narenas=0", "narenas: wanted a whole number from 1 to 4094, found `0`"),
        ("study --candidates jemalloc:tcache=maybe", "tcache: wanted true or false, found `maybe`"),
        ("study --candidates jemalloc:narenas", "`narenas` is not `key=value`"),
        ("study --candidates system:mmap_threshold=1TiB", "mmap_threshold: wanted"),
        ("study --threads 0", "threads: wanted 1 to "),
        ("study --threads 4000000", "found 4000000"),
        ("study --emulate-cpus 0", "emulate_cpus: wanted 1 to "),
        ("study --repeats 0", "repeats: wanted 1 or more, found 0"),
        ("study --time-budget soon", "time_budget: wanted a time such as 90s or 5m, found `soon`"),
        ("study --run-timeout 0s", "run_timeout: wanted a time"),
        ("study --workloads server:live=1", "live: wanted a size from 65536"),
        (
            "compare a b --gate resident",
            "--gate: wanted METRIC=PERCENT such as resident=5% or peak_resident.p90=5%, found `resident`",
        ),
        ("compare a b --gate resident=-5%", "--gate: wanted METRIC=PERCENT"),
        ("study --resume", "--resume: wanted --out-dir"),
        ("--threads 0", "threads: wanted 1 to "),
    ] {
        assert_refused(line, &allocanary(folder.path(), words(line)), &[said]);
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing may be left behind");
}

#[test]
fn a_bad_study_file_is_named_with_line_and_key() {
    let folder = tempdir().unwrap();
    for (text, said) in [
        ("candidates = ['system']\nrepeat = 3\n", ["line 2", "`repeat`", "repeats"]),
        ("candidates = ['system']\n\nrepeats = 'x'\n", ["line 3", "repeats = 'x'", "expected u32"]),
        ("candidates = [\n", ["line ", "candidates = [", "array"]),
        ("threads = [1]\n", ["candidates", "wanted at least one", "found none"]),
    ] {
        fs::write(folder.path().join("my.toml"), text).unwrap();
        let ran = allocanary(folder.path(), ["study", "my.toml"]);
        assert_refused(text, &ran, &said);
        assert_eq!(ran.err.contains("my.toml: "), text != "threads = [1]\n", "{}", ran.err);
    }
    assert_refused("missing", &allocanary(folder.path(), ["study", "none.toml"]), &["none.toml", "No such file"]);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let flags = words("--candidates system --threads 1 --repeats 1 --workloads").into_iter().chain([TINY]);
    let flags: Vec<&str> = flags.collect();
    // A path below a regular file cannot be made, whoever runs the test: root may write anywhere else.
    let ran = allocanary(folder.path(), ["study", "--out-dir", "file/below"].iter().chain(&flags));
    assert_refused("below a file", &ran, &["file/below", "making the output folder", "Not a directory"]);
    fs::write(folder.path().join("allocanary-out"), "").unwrap();
    let ran = allocanary(folder.path(), ["study"].iter().chain(&flags));
    assert_refused("a file in place of our folder", &ran, &["allocanary-out", "making the output folder"]);
    let rows = folder.path().join("rows.jsonl");
    fs::write(&rows, "").unwrap();
    let to = ["report", "rows.jsonl", "--output", "file/below"];
    assert_refused("a report of nothing", &allocanary(folder.path(), to), &["rows.jsonl: no row that can be reported"]);
}

#[test]
fn rows_that_are_there_are_never_overwritten() {
    let folder = tempdir().unwrap();
    let flags = format!("--candidates system --repeats 1 --workloads {TINY}");
    assert_eq!(study(folder.path(), &flags).code, Some(0));
    let rows = folder.path().join("out/samples.jsonl");
    let before = fs::read(&rows).unwrap();
    assert_refused("again", &study(folder.path(), &flags), &["out/samples.jsonl holds rows already", "--resume"]);
    assert_eq!(fs::read(&rows).unwrap(), before);
}

/// Each verb that reads a process says what a number is that never has memory again.
#[test]
fn a_process_that_has_ended_is_told_as_what_it_is() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    while !Stat::of(pid).unwrap().has_ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let verbs =
        ["PID", "heap PID", "heap PID --contents", "doctor PID", "who PID", "give-back PID", "record --attach PID"];
    for line in verbs {
        let ran = allocanary(Path::new("/"), words(&line.replace("PID", &pid.to_string())));
        let said = format!("process {pid}: it has ended and has no memory. Its parent, process {}", std::process::id());
        assert!(ran.code == Some(2) && ran.err.contains(&said), "{line}: {ran:?}");
    }
    child.wait().unwrap();
}
