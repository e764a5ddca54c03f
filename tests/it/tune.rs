//! `allocanary tune`: over fake cells with exact figures, over bad input, and once for real.

use std::fs;
use std::path::Path;

use allocanary_rows::provenance::Build;
use allocanary_sys::host::Host;
use tempfile::{TempDir, tempdir};

use super::bounded::Bounded;
use super::support::{Ran, TINY, allocanary, assert_golden, command, samples, script, this_build, words};

/// A `system` whose memory follows `arena_max`, and whose figures differ by repeat. `effect` is a line of shell that may
/// change `rss` (in MiB), `ns` (the time for a thousand operations) or end the process.
pub fn fake(effect: &str) -> TempDir {
    let folder = tempdir().unwrap();
    let build = Build { package: "fake".into(), version: "1".into(), id: "0".into(), ..this_build() };
    let (build, host) = (serde_json::to_string(&build).unwrap(), serde_json::to_string(&Host::this()).unwrap());
    let setting =
        |name: &str| format!(r#"{{"name":"{name}","kind":{{"type":"number","min":0,"max":99999999}},"about":""}}"#);
    let names = ["arena_max", "trim_threshold", "mmap_threshold", "tcache_count", "top_pad"].map(setting).join(",");
    let text = format!(
        r#"#!/bin/sh
if [ "$1" = describe ]; then
cat <<'END'
{{"protocol":1,"build":{build},"allocator":"system","version":"1.2","effective":{{}},"settings":[{names}],
"environment":{{"type":"each","prefix":"FAKE_"}},
"workloads":[{{"name":"work","about":"answers","operation":"answer","seconds":0.01}}]}}
END
exit
fi
cell=$(cat)
repeat=${{cell##*\"repeat\":}}
repeat=${{repeat%%,*}}
rss=80
ns=500000000
{effect}
printf '{{"schema":1,"cell":%s,"measured":{{"version":"1.2","moments":["start","idle"],"requested_bytes":[0,4194304],' "$cell"
printf '"readings":{{"resident_bytes":[1048576,%s]}},' $((rss * 1048576 + repeat * 4096))
printf '"operations":1000,"active_ns":%s,"verified":7,' $((ns + repeat * 100000))
printf '"latency":{{"timed":1,"every":1,"p50_ns":10,"p99_ns":100,"p999_ns":200,"max_ns":300}}}},'
printf '"provenance":{{"build":%s,"host":%s}}}}\n' '{build}' '{host}'
"#
    );
    script(&folder.path().join("cell-system"), &text);
    folder
}

const FLAGS: &str = "tune --cells . --workloads work --present system --threads 4 --repeats 6 --out-dir out";

fn tune(folder: &Path, more: &str) -> Ran {
    allocanary(folder, words(FLAGS).into_iter().chain(words(more)))
}

#[test]
fn the_settings_that_cost_less_are_found_proven_and_handed_over() {
    let folder = fake("[ \"$FAKE_ARENA_MAX\" = 1 ] && rss=20\n[ \"$FAKE_TRIM_THRESHOLD\" ] && ns=900000000");
    let ran = tune(folder.path(), "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for said in [
        "Use system:arena_max=1 instead of system: resident 20.0 MiB instead of 80.0 MiB, -75 %",
        "for work, 4 threads.",
        "Dockerfile  ENV GLIBC_TUNABLES=glibc.malloc.arena_max=1",
        "install!(system, arena_max = 1);",
    ] {
        assert!(ran.out.replace('\n', " ").contains(said), "{said}\n{}", ran.out);
    }
    let out = folder.path().join("out");
    // The file has the lines of every place.
    let file = fs::read_to_string(out.join("tune.txt")).unwrap();
    for said in [
        "Use system:arena_max=1 instead of system: resident 20.0 MiB instead of 80.0 MiB, -75 %",
        "export GLIBC_TUNABLES=glibc.malloc.arena_max=1",
        "mallopt(M_ARENA_MAX, 1);",
        "install!(system, arena_max = 1);",
        "allocanary compare before.jsonl now.jsonl --gate resident=10%",
    ] {
        assert!(file.replace('\n', " ").contains(said), "{said}\n{file}");
    }
    let rows = samples(&out);
    let of = |stage: &str| rows.iter().filter(|row| row.cell.study.as_deref() == Some(stage)).count();
    assert_eq!(of("tune-race-1"), 6 * 2, "three values of arena_max, two of trim_threshold");
    assert!(of("tune-final") >= 2 * 6 && of("tune-final").is_multiple_of(6), "{}", of("tune-final"));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(
        page.contains("Use system:arena_max=1 instead of system") && page.contains("install!(system, arena_max = 1);")
    );
    // The races had other requests than the proof, which tuned.toml repeats.
    assert!(fs::read_to_string(out.join("tuned.toml")).unwrap().contains("seed = 1001"));
    // A report of the folder has no answer of its own.
    let report = allocanary(folder.path(), words("report out"));
    assert!(report.code == Some(0) && !report.out.contains("ENV GLIBC_TUNABLES"), "{report:?}");
    assert!(report.out.replace('\n', " ").contains("tune.txt, next to them, has its answer"), "{}", report.out);
    // The proof is a study like any other.
    let again = allocanary(folder.path(), words("study out/tuned.toml --cells . --repeats 2 --out-dir again"));
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(samples(&folder.path().join("again")).len(), 2 * 2);

    // With the same rows the search makes the same choices, and measures nothing again.
    let refused = tune(folder.path(), "");
    assert!(refused.code == Some(2) && refused.err.contains("add --resume"), "{refused:?}");
    let resumed = tune(folder.path(), "--resume");
    assert_eq!((resumed.code, &resumed.out), (Some(0), &ran.out), "{resumed:?}");
    assert_eq!(samples(&out).len(), rows.len());
    let other = tune(folder.path(), "--resume --seed 7");
    assert!(other.code == Some(2) && other.err.contains("seed: wanted 1, found 7"), "{other:?}");
    // An answer without rows is the user's.
    for name in ["samples.jsonl", "study.toml", "report.html"] {
        fs::remove_file(out.join(name)).unwrap();
    }
    let refused = tune(folder.path(), "");
    let said = "tune.txt: exists without rows next to it, and would be overwritten";
    assert!(refused.code == Some(2) && refused.err.contains(said), "{refused:?}");
}

#[test]
fn what_cannot_be_searched_is_refused_before_anything_is_written() {
    let folder = fake("");
    for (more, said) in [
        ("--candidates jemaloc", "--candidates: no allocator `jemaloc`"),
        ("--objective size", "--objective: no objective `size`; there are memory, cpu, p99"),
        ("--tolerance resident=5%", "resident is the objective itself"),
        ("--tolerance throughput", "wanted METRIC=PERCENT"),
        ("--present nothing", "no candidate `nothing`"),
        ("--present system:arena_max=x", "wanted a whole number"),
        ("--time-budget 1ms", "--time-budget: wanted at least "),
        ("--emulate-cpus 4,40", "--emulate-cpus: wanted one, found 2"),
        ("--workloads a b", "--workloads: wanted one, found 2"),
        ("--repeats 4", "--repeats: wanted at least 5 fresh rows of each finalist, found 4"),
    ] {
        // Two flags of the same name would be a separate error.
        let plain = FLAGS.replace(if more.contains("--present") { "--present system" } else { "\0" }, "");
        let plain = plain.replace(if more.contains("--workloads") { "--workloads work" } else { "\0" }, "");
        let plain = plain.replace(if more.contains("--repeats") { "--repeats 6" } else { "\0" }, "");
        let ran = allocanary(folder.path(), words(&plain).into_iter().chain(words(more)));
        assert!(ran.code == Some(2) && ran.err.contains(said), "{more}: {ran:?}");
        assert!(!folder.path().join("out").exists(), "{more}");
    }
}

#[test]
fn the_page_has_the_answer_of_the_search_and_none_of_its_own() {
    let folder = fake("[ \"$FAKE_ARENA_MAX$FAKE_TRIM_THRESHOLD\" ] && rss=20 && ns=900000000");
    let ran = tune(folder.path(), "");
    assert!(ran.code == Some(0) && ran.out.contains("Keep what you have, system"), "{ran:?}");
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("Keep what you have, system") && !page.contains("To paste"), "{page}");
    let tuned = fs::read_to_string(folder.path().join("out/tuned.toml")).unwrap();
    assert!(tuned.contains("candidates = [\"system\"]") && !ran.out.contains("To paste"), "{tuned}");
}

/// Changes the rows of a search.
fn change(out: &Path, mut each: impl FnMut(&mut serde_json::Value)) {
    let path = out.join("samples.jsonl");
    let changed = |line: &str| {
        let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
        each(&mut row);
        row.to_string() + "\n"
    };
    let rows: String = fs::read_to_string(&path).unwrap().lines().map(changed).collect();
    fs::write(path, rows).unwrap();
}

/// Changes the rows of a search, so that the machine's load is known.
fn with_load(out: &Path, load: Option<serde_json::Value>) {
    change(out, |row| match &load {
        None => drop(row.as_object_mut().unwrap().remove("load")),
        Some(load) => row["load"] = load.clone(),
    });
}

#[test]
fn the_whole_answer_is_as_it_was() {
    let slow = "[ \"$FAKE_TRIM_THRESHOLD\" ] && ns=900000000\n[ \"$FAKE_ARENA_MAX\" = 2 ] && exit 4";
    let folder = fake(&format!("[ \"$FAKE_ARENA_MAX\" = 1 ] && rss=20\n{slow}"));
    let ran = tune(folder.path(), "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    with_load(&folder.path().join("out"), None);
    let resumed = tune(folder.path(), "--resume");
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_golden("tune.txt", &fs::read_to_string(folder.path().join("out/tune.txt")).unwrap());

    // The output on a terminal of 80 columns, up to the text about this machine.
    let mut narrow = command(folder.path());
    let narrow: Ran = narrow.env("COLUMNS", "80").args(words(FLAGS)).arg("--resume").finish().unwrap().into();
    let at = narrow.out.find("rows; medians of").unwrap_or_else(|| panic!("{narrow:?}"));
    let screen = narrow.out[..narrow.out[..at].rfind('\n').unwrap() + 1].to_string();
    assert_golden("tune-screen.txt", &screen);
    let answer = screen.lines().position(|line| line == "Answer").unwrap();
    assert!(screen.lines().count() - answer <= 20, "the answer and its lines are on the last screen: {screen}");

    // Each form has the same answer.
    let brief = tune(folder.path(), "--resume --short");
    assert!(brief.out.lines().count() <= 10 && brief.out.starts_with("Use system:arena_max=1 instead"), "{brief:?}");
    let json: serde_json::Value = serde_json::from_str(&tune(folder.path(), "--resume --json").out).unwrap();
    let answer = &json["answers"][0];
    assert_eq!((&json["verb"], &json["schema"]), (&"tune".into(), &1.into()));
    assert_eq!((&answer["choice"], &answer["candidate"]), (&"take".into(), &"system:arena_max=1".into()));
    assert_golden("tune-answer.json", &format!("{:#}\n", json["answers"]));
}

#[test]
fn a_small_real_search_ends_with_an_answer() {
    let folder = tempdir().unwrap();
    let flags = "--candidates system --present system --threads 2 --repeats 5 --out-dir out";
    let ran = allocanary(folder.path(), words("tune --workloads").into_iter().chain([TINY]).chain(words(flags)));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("Keep what you have, system") || ran.out.contains("Use system:"), "{}", ran.out);
    let (_, bars) = ran.out.split_once("Where the memory is:\n").unwrap_or_else(|| panic!("{}", ran.out));
    assert!(bars.contains("B files\n") && bars.contains("\nsystem "), "{}", ran.out);
}
