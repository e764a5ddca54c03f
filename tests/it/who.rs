//! `allocanary who` as a user runs it, on a made-up trace: by threads, which every trace has, and what is refused.
//! And on the trace of a service whose answer is known.

use std::fs;
use std::path::Path;

use allocanary_testing::skipped::skipped;
use allocanary_trace::builder::TraceBuilder;
use allocanary_trace::coder::{Event, How};
use tempfile::{TempDir, tempdir};

use super::record::{compiled, traces};
use super::support::{Ran, allocanary, command, words};

const PAGE: u64 = 4096;

/// Thread 0 makes 500 pages of short life, and thread 1 keeps a block of 64 bytes behind each.
fn trace() -> TempDir {
    let folder = tempdir().unwrap();
    let mut builder = TraceBuilder::stamped(4096, 1);
    let malloc = |address, size| Event::New { how: How::Malloc, address, size };
    for at in 0..500 {
        builder.event(0, 10 * at, malloc((256 + at) * PAGE, PAGE - 64));
        builder.event(1, 10 * at, malloc((256 + at) * PAGE + PAGE - 64, 64));
    }
    // An event has the time of the stamp before it.
    builder.event(0, 20_000, Event::Stamp);
    for at in 0..500 {
        builder.event(0, 20_000 + at, Event::Free { address: (256 + at) * PAGE });
    }
    fs::write(folder.path().join("sample.trace"), builder.finish()).unwrap();
    folder
}

fn who(folder: &Path, line: &str) -> Ran {
    let mut who = command(folder);
    who.env("COLUMNS", "80").args(["who", "sample.trace"]).args(words(line)).output().unwrap().into()
}

const TABLE: &str = "\
sample, at the time that was asked for: 1.92 MiB of 1.95 MiB of the pages that
hold blocks are pinned by survivors of thread 1.

Pages of the heap, at the time that was asked for (205 us after the start)
  part                                         bytes   of all
  live blocks                               31.2 KiB    1.6 %
  pinned: free, in pages with a live block  1.92 MiB   98.4 %
  all pages that hold blocks                1.95 MiB  100.0 %

Sites by thread: 2 (KiB)
  site      pinned   alone  live  allocated  short
  thread 1  1968.8  1968.8  31.2       31.2    0 %
  thread 0     0.0     0.0   0.0     1968.8  100 %

What limits these figures
  - Which pages were resident at this moment is not in the trace: only pages
    that hold blocks are counted, and empty pages that the allocator keeps are
    not.
";

#[test]
fn threads_are_told_of_any_trace() {
    let folder = trace();
    let table = who(folder.path(), "--by thread --at 1s");
    assert_eq!((table.code, table.err.as_str(), table.out.as_str()), (Some(0), "", TABLE));
    let brief = who(folder.path(), "--by thread --at 1s --short");
    assert!(TABLE.starts_with(&brief.out) && brief.out.lines().count() == 2, "{brief:?}");
    let json = who(folder.path(), "--by thread --json --at peak --top 1");
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&value["verb"], &value["by"]), (&"who".into(), &"thread".into()));
    assert_eq!((&value["answers"][0]["at"], &value["answers"][0]["choice"]), (&"peak".into(), &"live".into()));
    assert_eq!(value["sites"].as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_told_is_refused() {
    let folder = trace();
    fs::write(folder.path().join("empty.json"), "{}").unwrap();
    for (line, wanted) in [
        ("", "has no stacks: record again with --stacks all"),
        ("--by thread --at soon", "--at: wanted peak, idle, or a time after the start such as 12s; found `soon`"),
        ("--by thread --at idle", "--at idle: the trace has no such mark"),
        ("--by thread --format pprof --out x", "leave out --by thread"),
        ("--format pprof", "--out <FILE>"),
        ("--top 0", "0 is not in 1.."),
        ("--gate site=5%", "--against <FILE>"),
        ("--against sample.trace", "has no stacks: record again with --stacks all"),
        ("--against sample.trace --by thread", "--against: wanted --by function or module, found --by thread"),
        ("--against sample.trace --gate rss=5%", "--gate: wanted site=PERCENT such as site=5%, found `rss=5%`"),
        ("--against nowhere.json", "nowhere.json"),
        ("--against empty.json", "--against empty.json: wanted the output of who --json, found none of its `sites`"),
        ("--by thread --at 1s --under nothing", "nothing"),
        ("--by thread --at 1s --under :", "--under :: wanted `name`"),
    ] {
        let ran = who(folder.path(), line);
        assert!(ran.code == Some(2) && ran.out.is_empty() && ran.err.contains(wanted), "{line}: {ran:?}");
    }
    assert!(!folder.path().join("x").exists());
}

/// The C library's malloc puts a survivor behind each block of short life: it pins every page that is kept.
#[test]
fn the_function_whose_blocks_survive_is_named_with_the_pages_that_were_resident() {
    if cfg!(not(all(target_arch = "x86_64", target_env = "gnu"))) {
        return skipped("stacks need x86-64 and glibc");
    }
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "pins") else { return };
    let load = "touch {dir}/go; while [ ! -e {dir}/done ]; do sleep 0.01; done";
    let line = ["record", "-o", "traces", "--ready", "line:ready", "--load", load, "--settle", "100ms", "--"];
    let ran = allocanary(folder.path(), line.iter().chain(&[program.to_str().unwrap(), "{dir}"]));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let [path] = &traces(&folder.path().join("traces"))[..] else { panic!("one trace: {}", ran.err) };
    let ran = allocanary(folder.path(), ["who", path.to_str().unwrap(), "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let (answer, site) = (&value["answers"][0], &value["sites"][0]);
    assert_eq!((&answer["at"], &site["name"]), (&"idle".into(), &"survivor".into()), "{}", ran.out);
    // Every page that has a survivor was written to, so it is resident. Without the resident pages of the trace `empty` is no number.
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_else(|| panic!("{}", ran.out));
    assert_eq!(site["blocks"], 8192);
    assert!(number(&site["pinned"]) * 100 > number(&answer["pinned"]) * 99, "{}", ran.out);
    assert_eq!(
        number(&answer["live"]) + number(&answer["pinned"]) + number(&answer["empty"]),
        number(&answer["resident"])
    );
    // Against itself nothing has grown; against one in which `survivor` held nothing, it has.
    let json = folder.path().join("before.json");
    let against = |gate: &str| {
        let line = ["who", path.to_str().unwrap(), "--against", json.to_str().unwrap(), "--gate", gate, "--json"];
        allocanary(folder.path(), line)
    };
    fs::write(&json, &ran.out).unwrap();
    let same = against("site=1%");
    assert!(same.code == Some(0) && same.out.contains("the gate holds"), "{same:?}");
    let mut before = value.clone();
    before["sites"][0]["name"] = "another".into();
    fs::write(&json, before.to_string()).unwrap();
    let grown = against("site=5%");
    assert!(grown.code == Some(1) && grown.out.contains(r#""choice": "failed""#), "{grown:?}");
    assert!(grown.out.contains("The gate is broken: 1 site holds more by over 5 % of that: `survivor`"), "{grown:?}");
    // The same blocks in a replay under the allocator that the program is linked with.
    let ran = allocanary(folder.path(), ["who", path.to_str().unwrap(), "--json", "--under", "own"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let (there, site) = (&value["answers"][0]["under"], &value["under"]["sites"][0]);
    assert_eq!(
        (&there["candidate"], &site["name"], &site["blocks"]),
        (&"system".into(), &"survivor".into(), &8192.into())
    );
    assert!(number(&site["pinned"]) * 100 > number(&there["pinned"]) * 99, "{}", ran.out);
    assert_eq!(number(&there["live"]) + number(&there["pinned"]) + number(&there["empty"]), number(&there["resident"]));
}
