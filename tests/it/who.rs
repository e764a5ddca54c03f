//! `allocanary who` as a user runs it. On a synthetic trace: by threads, which every trace has, and refusals. And on
//! the trace of a service with a known answer.

use std::fs;
use std::path::Path;

use allocanary_testing::skipped::skipped;
use allocanary_trace::builder::TraceBuilder;
use allocanary_trace::coder::{AllocFunction, Event};
use allocanary_trace::stacks::{StackNode, Stacks};
use tempfile::{TempDir, tempdir};

use super::bounded::Bounded;
use super::record::{compiled, traces};
use super::support::{Ran, allocanary, command, words};

const PAGE: u64 = 4096;

/// Thread 0 makes 500 short-lived blocks of a page, and thread 1 keeps a block of 64 bytes behind each.
fn trace() -> TempDir {
    let folder = tempdir().unwrap();
    let mut builder = TraceBuilder::stamped(4096, 1);
    let malloc = |address, size| Event::New { how: AllocFunction::Malloc, address, size };
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
    who.env("COLUMNS", "80").args(["who", "sample.trace"]).args(words(line)).finish().unwrap().into()
}

const TABLE: &str = "\
sample, at the time that was asked for: 1.92 MiB of 1.95 MiB of the pages that
hold blocks are pinned by survivors of thread 1.

Pages of the heap, at the time that was asked for (205 us after the start)
  part                                         bytes   of all
  requested: live blocks                    31.2 KiB    1.6 %
  pinned: free, in pages with a live block  1.92 MiB   98.4 %
  all pages that hold blocks                1.95 MiB  100.0 %

Sites by thread: 2, those that pin most first
  site        pinned     alone  requested  allocated  short
  thread 1  1.92 MiB  1.92 MiB   31.2 KiB   31.2 KiB    0 %
  thread 0       0 B       0 B        0 B   1.92 MiB  100 %

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
    assert_eq!((&value["answers"][0]["at"], &value["answers"][0]["choice"]), (&"peak".into(), &"requested".into()));
    assert_eq!(value["sites"].as_array().unwrap().len(), 1);
}

/// Anybody may have put the file there.
#[test]
fn a_number_is_a_process_even_if_a_file_has_this_name() {
    let folder = trace();
    // No process has this number: the kernel's limit is 4194304.
    fs::rename(folder.path().join("sample.trace"), folder.path().join("4194305")).unwrap();
    let who = |what| allocanary(folder.path(), ["who", what, "--by", "thread", "--at", "1s"]);
    let (process, file) = (who("4194305"), who("./4194305"));
    assert!(process.code == Some(2) && process.err.contains("4194305") && process.out.is_empty(), "{process:?}");
    assert!(file.code == Some(0) && file.out.contains("thread 1"), "{file:?}");
}

#[test]
fn what_cannot_be_told_is_refused() {
    let folder = trace();
    fs::write(folder.path().join("empty.json"), "{}").unwrap();
    for (line, wanted) in [
        ("", "has no stacks: record again with --stack-sample all"),
        ("--by thread --at soon", "--at: wanted peak, idle, end, or a time after the start such as 12s; found `soon`"),
        ("--by thread --at idle", "--at idle: the trace has no such mark"),
        ("--by thread --at end", "--at end: wanted a trace that was ended from outside"),
        ("--by thread --format pprof --output x", "leave out --by thread"),
        ("--format pprof", "--output <FILE>"),
        ("--top 0", "0 is not in 1.."),
        ("--gate site=5%", "--against <FILE>"),
        ("--against sample.trace", "has no stacks: record again with --stack-sample all"),
        ("--against sample.trace --by thread", "--against: wanted --by function or module, found --by thread"),
        (
            "--against sample.trace --gate resident=5%",
            "--gate: wanted site=PERCENT such as site=5%, found `resident=5%`",
        ),
        ("--against nowhere.json", "nowhere.json"),
        ("--against empty.json", "--against empty.json: wanted the output of who --json, found none of its `sites`"),
        ("--by thread --at 1s --under nothing", "nothing"),
        ("--by thread --at 1s --under :", "--under :: wanted `name`"),
        ("--what-if survivor", "--what-if: wanted the stacks of all allocations, found no stacks: record again"),
        ("--what-if a --by thread", "--what-if: wanted --by function, line or module, found --by thread"),
        ("--what-if a --format pprof --output x", "cannot be used with"),
        ("--what-if a --against sample.trace", "cannot be used with"),
        ("--callers a --what-if b", "cannot be used with"),
        ("--callers a --by thread", "--callers: wanted --by function, line or module, found --by thread"),
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
    // Every page with a survivor was written to, so it is resident. Without the resident pages in the trace `empty` is null.
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_else(|| panic!("{}", ran.out));
    assert_eq!(site["blocks"], 8192);
    assert!(number(&site["pinned_bytes"]) * 100 > number(&answer["pinned_bytes"]) * 99, "{}", ran.out);
    assert_eq!(
        number(&answer["requested_bytes"]) + number(&answer["pinned_bytes"]) + number(&answer["empty_bytes"]),
        number(&answer["pages_bytes"])
    );
    // Compared with itself nothing has grown. Compared with a trace in which `survivor` held nothing, `survivor` has
    // grown.
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
    before["sites"][0]["identity"] = serde_json::Value::Null;
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
    assert!(number(&site["pinned_bytes"]) * 100 > number(&there["pinned_bytes"]) * 99, "{}", ran.out);
    assert_eq!(
        number(&there["requested_bytes"]) + number(&there["pinned_bytes"]) + number(&there["empty_bytes"]),
        number(&there["pages_bytes"])
    );
}

/// The wrapper is not a site, because only its callers say for what the memory is.
#[test]
fn a_wrapper_is_passed_over_and_the_callers_of_a_site_are_a_tree() {
    if cfg!(not(all(target_arch = "x86_64", target_env = "gnu"))) {
        return skipped("stacks need x86-64 and glibc");
    }
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "wrapped") else { return };
    let ran =
        allocanary(folder.path(), ["record", "-o", "traces", "--stack-sample", "all", "--", program.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let [path] = &traces(&folder.path().join("traces"))[..] else { panic!("one trace: {}", ran.err) };
    let who = |line: &str| allocanary(folder.path(), [&["who", path.to_str().unwrap()][..], &words(line)].concat());
    let json = |line: &str| -> serde_json::Value {
        let ran = who(&format!("--sort requested --json {line}"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        serde_json::from_str(&ran.out).unwrap()
    };
    let first = |value: &serde_json::Value| -> Vec<(String, u64)> {
        let sites = value["sites"].as_array().unwrap().iter().take(2);
        sites
            .map(|site| (site["name"].as_str().unwrap().to_string(), site["requested_bytes"].as_u64().unwrap()))
            .collect()
    };
    let found = json("");
    assert_eq!(first(&found), [("large".into(), 1_500_000), ("small".into(), 500_000)]);
    assert_eq!(found["wrappers"], serde_json::json!([{ "name": "app_safemalloc", "callers": 2 }]));
    assert_eq!(first(&json("--no-fold"))[0], ("app_safemalloc".into(), 2_000_000));
    assert_eq!(first(&json("--skip large --skip s*l"))[0], ("load".into(), 2_000_000));
    let tree = &json("--no-fold --callers app_safemalloc")["callers"];
    let [large, small] = [0, 1].map(|at| &tree["callers"][at]);
    assert_eq!(
        (&large["name"], &large["requested_bytes"], &large["blocks"]),
        (&"large".into(), &1_500_000.into(), &500.into())
    );
    assert_eq!((&small["name"], &small["callers"][0]["name"]), (&"small".into(), &"load".into()));
    assert_eq!(small["callers"][0]["callers"][0]["name"], "main", "{tree}");
    let said = who("--callers large");
    assert!(said.out.starts_with("Who calls `large`, at the peak of live bytes: "), "{said:?}");
    assert!(said.out.contains("Passed over as wrappers around malloc: `app_safemalloc` (2 callers)."), "{said:?}");
    for (line, wanted) in [
        ("--skip sma", "--skip sma: wanted the whole name of a function of this trace"),
        ("--callers nothing", "--callers nothing: wanted the name of a site, found none of this name"),
    ] {
        let ran = who(line);
        assert!(ran.code == Some(2) && ran.err.contains(wanted), "{line}: {ran:?}");
    }
    // The page shows an open flamegraph, although hardly anything is pinned.
    let page = folder.path().join("page.html");
    let ran = allocanary(folder.path(), ["report", path.to_str().unwrap(), "--output", page.to_str().unwrap()]);
    let html = fs::read_to_string(page).unwrap();
    assert!(ran.code == Some(0) && html.contains("<details open><summary><b>Requested bytes by stack</b>"), "{ran:?}");
    assert!(html.contains("Live bytes of the largest sites over time") && html.contains("Who calls them"), "{html}");
}

/// Stacks of two sites without names: `0x10` keeps a block of 64 bytes behind each of 8 KiB that `0x20` makes, and frees half of its own.
/// `0x30` keeps 200 pages in one block.
fn planted(folder: &Path) {
    let mut builder = TraceBuilder::with_stacks(4096, 1);
    let node = |pc| StackNode { parent: 0, pc, module: 0 };
    let nodes = vec![StackNode::default(), node(0x10), node(0x20), node(0x30)];
    builder.tables(&Stacks { nodes, modules: Vec::new() });
    let address = |at: u64, offset: u64| 0x10_0000 + at * 0x4000 + offset;
    let malloc = |address, size| Event::New { how: AllocFunction::Malloc, address, size };
    let mut tick = 0;
    let mut add = |builder: &mut TraceBuilder, event, stack| {
        tick += 100;
        builder.stacked(0, tick, event, stack);
    };
    add(&mut builder, malloc(address(9000, 0), 200 * PAGE), 3);
    for at in 0..2000 {
        add(&mut builder, malloc(address(at, 0), 2 * PAGE), 2);
        add(&mut builder, malloc(address(at, 0x3000), 64), 1);
        add(&mut builder, malloc(address(at, 0x3400), 64), 1);
        add(&mut builder, Event::Free { address: address(at, 0x3400) }, 0);
    }
    (0..2000).for_each(|at| add(&mut builder, Event::Free { address: address(at, 0) }, 0));
    add(&mut builder, malloc(address(9001, 0), 64), 3);
    fs::write(folder.join("planted.trace"), builder.finish()).unwrap();
}

/// Under the C library's malloc the survivors keep a page each. In the pool they keep some thirty pages. Pages of another site are not
/// holes. Which empty pages go back does not follow from addresses, so only pages with blocks are checked.
#[test]
fn what_a_planted_site_frees_elsewhere_is_what_it_pins_and_an_innocent_one_frees_nothing() {
    if cfg!(not(target_env = "gnu")) {
        return skipped("it is about the malloc of glibc");
    }
    let folder = tempdir().unwrap();
    planted(folder.path());
    let what_if = |site: &str, more: &str| {
        let mut who = command(folder.path());
        who.args(["who", "planted.trace", "--at", "1s", "--what-if", site]).args(words(more));
        Ran::from(who.finish().unwrap())
    };
    let answer = |site: &str| {
        let ran = what_if(site, "--under system --json");
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        value["answers"][0].clone()
    };
    let number = |value: &serde_json::Value| value.as_i64().unwrap_or_else(|| panic!("{value}"));
    let guilty = answer("0x10");
    let pinned = number(&guilty["pinned_bytes"]);
    assert!(pinned > 2000 * 3000, "{guilty}");
    assert_eq!((&guilty["candidate"], &guilty["repeats"]), (&"system".into(), &5.into()));
    let saved = number(&guilty["survivors"]["freed"]["less_bytes"]);
    assert!(saved > pinned * 8 / 10 && saved < pinned * 12 / 10, "{guilty}");
    assert!(number(&guilty["whole"]["freed"]["less_bytes"]) > pinned * 8 / 10, "{guilty}");
    let innocent = answer("0x30");
    for way in ["survivors", "whole"] {
        assert!(number(&innocent[way]["freed"]["less_bytes"]).abs() < pinned / 10, "{way}: {innocent}");
    }
    // No short-lived block survives, so there is nothing to move.
    let short = answer("0x20");
    assert_eq!(short["survivors"], serde_json::Value::Null, "{short}");
    let brief = what_if("0x10", "--under system --short");
    assert!(brief.out.starts_with("sample, at the time that was asked for, under system: "), "{brief:?}");
    assert!(brief.out.contains("are resident. With the survivors of `0x10` elsewhere"), "{brief:?}");
    // The program of this trace does not exist as a file. So without an allocator's name there is no replay.
    let none = what_if("0x10", "");
    assert!(none.code == Some(0) && none.out.contains("There was no replay: --what-if:"), "{none:?}");
    let unknown = what_if("0x99", "--under system");
    assert!(unknown.code == Some(2) && unknown.err.contains("wanted the name of a site, found none"), "{unknown:?}");
    let several = what_if("0x", "--under system");
    assert!(several.err.contains("wanted one site, found 3 with that in their names"), "{several:?}");
}
