//! Programs that know what they have and what they lost, against what is read of them: running and stopped, stripped, under other
//! allocators where their libraries are here.

// The programs that are started here are ours.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use allocanary_contents::{Contents, ContentsRequest, SLAB, Target, take, take_core};
use allocanary_heap::ReadMode;
use allocanary_testing::programs::{Running, compiled};
use allocanary_testing::skipped::skipped;

/// Of `moving.c`.
const THREADS: u64 = 4;
#[cfg(not(target_arch = "aarch64"))]
const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
#[cfg(target_arch = "aarch64")]
const JEMALLOC: &str = "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2";

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Starts a program of ours, and reads what it says of itself. `None` if it cannot be compiled here.
fn started(name: &str, flags: &[&str], preload: &str) -> Option<(Running, BTreeMap<String, u64>, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let linked = ["-lstdc++"].into_iter().filter(|_| name.ends_with(".cpp") && !flags.contains(&"-nodefaultlibs"));
    let flags: Vec<&str> = flags.iter().copied().chain(linked).collect();
    let program = compiled(&source(name), folder.path(), &flags)?;
    let mut command = Command::new(program);
    if !preload.is_empty() {
        command.env("LD_PRELOAD", preload);
    }
    let mut running = Running::start(&mut command);
    let counts = running.counts();
    Some((running, counts, folder))
}

const WANTED: ContentsRequest = ContentsRequest {
    how: ReadMode::Running,
    limit: 1 << 30,
    is_sampled: false,
    holders: true,
    texts: false,
    addresses: false,
    target: None,
    largest: false,
};

fn read(running: &Running, how: ReadMode) -> Contents {
    take(running.pid(), &ContentsRequest { how, ..WANTED }, Duration::from_secs(60)).unwrap()
}

/// Blocks of a kind.
fn kind(contents: &Contents, name: &str) -> u64 {
    contents.kinds.iter().find(|row| row.kind == name).map_or(0, |row| row.blocks)
}

#[test]
fn lost_blocks_are_found_block_for_block() {
    for preload in ["", JEMALLOC] {
        if !preload.is_empty() && !Path::new(preload).exists() {
            skipped(format!("no {preload}"));
            continue;
        }
        let Some((running, known, _folder)) = started("lost.c", &["-O2", "-s"], preload) else { return };
        for how in [ReadMode::Running, ReadMode::Stopped] {
            let contents = read(&running, how);
            let leaked = contents.leaked.as_ref().unwrap_or_else(|| panic!("{:?}", contents.problems));
            assert_eq!((leaked.blocks, leaked.direct_blocks), (known["lost"], known["direct"]), "{preload} {how:?}");
            assert_eq!(contents.stopped.is_some(), how == ReadMode::Stopped);
        }
    }
}

#[test]
fn blocks_that_move_are_not_lost() {
    let Some((running, known, _folder)) = started("moving.c", &["-O2", "-pthread"], "") else { return };
    let leaked = |how| read(&running, how).leaked.map(|leaked| leaked.blocks);
    assert_eq!(leaked(ReadMode::Stopped), Some(known["lost"]));
    // On a busy machine a walk can break too often, and a thread that does not run holds a block in a register all the time.
    let found = (0..5).find_map(|_| leaked(ReadMode::Running)).expect("one of five can be told");
    assert!((known["lost"]..=known["lost"] + THREADS).contains(&found), "{found}");
}

#[test]
fn what_is_held_in_rare_ways_is_not_lost() {
    let Some((running, known, _folder)) = started("ways.c", &["-O1"], "") else { return };
    for how in [ReadMode::Running, ReadMode::Stopped] {
        let contents = read(&running, how);
        let leaked = contents.leaked.as_ref().unwrap_or_else(|| panic!("{:?}", contents.problems));
        assert_eq!((leaked.blocks, contents.pipes), (known["lost"], known["pipes"]), "{how:?} {:?}", leaked.rows);
        let held = |begin: &str| contents.holders.iter().find(|one| one.name.starts_with(begin)).map(|one| one.blocks);
        assert_eq!((held("data of epoll"), held("values of timers")), (Some(known["epoll"]), Some(known["timers"])));
    }
}

#[test]
fn what_a_string_does_not_use_holds_nothing_and_loses_nothing() {
    let Some((running, known, _folder)) = started("texts.cpp", &["-O2", "-g"], "") else { return };
    let contents = read(&running, ReadMode::Stopped);
    assert_eq!(contents.alike.blocks, known["alike"], "{:?}", contents.holders);
    assert_eq!(contents.leaked.map(|leaked| leaked.blocks), Some(0));
    let texts = contents.holders.iter().find(|one| one.name.starts_with("`texts")).map(|one| one.blocks);
    assert_eq!(texts, Some(known["texts"] + 1));
}

#[test]
fn what_the_buffer_of_a_stream_had_before_holds_nothing() {
    for preload in ["", JEMALLOC].into_iter().filter(|path| path.is_empty() || Path::new(path).exists()) {
        let Some((running, known, _folder)) = started("buffer.c", &["-O1"], preload) else { return };
        let contents = read(&running, ReadMode::Stopped);
        assert_eq!(contents.leaked.map(|leaked| leaked.blocks), Some(known["lost"]), "{preload}");
    }
}

#[test]
fn slabs_of_glib_are_named() {
    let Some((running, known, _folder)) = started("slices.c", &["-O1", "-ldl"], "") else { return };
    let contents = read(&running, ReadMode::Stopped);
    let slabs = kind(&contents, SLAB);
    if known["glib"] == 0 || slabs == 0 {
        return skipped("no GLib before 2.76, which has slabs");
    }
    // A slab of 1 KiB has room for 15 parts, and GLib takes more than one part at once.
    assert!((known["parts"] / 16..known["parts"] / 8).contains(&slabs), "{slabs}");
}

#[test]
fn kinds_and_holders_are_those_of_the_program() {
    for flags in [&["-O2", "-g"], &["-O2", "-s"]] {
        let Some((running, known, _folder)) = started("things.cpp", flags, "") else { return };
        let contents = read(&running, ReadMode::Running);
        let wanted = [
            ("app::Peer (by make_shared)", known["peers"]),
            ("app::Square[]", known["arrays"]),
            ("app::Square", known["squares"]),
            ("app::Circle", known["circles"]),
            ("std::map or std::set node", known["nodes"]),
            ("std::list node", known["list"]),
            ("std::unordered_* node", known["hash"]),
            ("std::string data", known["strings"]),
        ];
        for (name, count) in wanted {
            assert_eq!(kind(&contents, name), count, "{name}: {:?}", contents.kinds);
        }
        let leaked = contents.leaked.as_ref().unwrap();
        assert_eq!(leaked.blocks, known["lost"], "{:?}", leaked.rows);
        let circles = leaked.rows.iter().find(|row| row.kind == "app::Circle").map_or(0, |row| row.blocks);
        assert_eq!(circles, known["lost_circles"]);
        if flags[1] == "-g" {
            let holder =
                |name: &str| contents.holders.iter().find(|one| one.name.starts_with(name)).map(|one| one.blocks);
            assert_eq!(holder("`g_map"), Some(2 * 50_000));
            assert_eq!(holder("`g_set"), Some(40_000));
            assert_eq!(holder("`g_cache"), Some(2 * 20_000 + 1));
        }
    }
}

#[test]
fn who_points_to_a_block_is_found_from_both_ends() {
    let Some((running, known, _folder)) = started("things.cpp", &["-O2", "-g"], "") else { return };
    let asked = |target| {
        let wanted = ContentsRequest { target: Some(target), ..WANTED };
        take(running.pid(), &wanted, Duration::from_secs(60)).unwrap().pointed.unwrap()
    };
    let circles = asked(Target::Kind("app::Circle".into()));
    assert_eq!((circles.found, circles.blocks.len()), (known["circles"], 5));
    let first = circles.blocks.iter().find(|block| !block.path.is_empty()).expect("one is held");
    let last = first.path.last().unwrap();
    assert!(first.pointers.contains(last), "{first:?}");
    // The same by an address inside of it; what points there is a block, or a variable with its address.
    let again = asked(Target::Address(first.at + 3));
    assert_eq!((again.found, &again.blocks[0].pointers), (1, &first.pointers));
    let above = asked(Target::Address(last.at));
    assert!(above.blocks.first().is_none_or(|above| above.at == last.at), "{above:?}");
    assert_eq!(asked(Target::Address(16)).found, 0);
    let all =
        take(running.pid(), &ContentsRequest { largest: true, ..WANTED }, Duration::from_secs(60)).unwrap().largest;
    let circles = all.iter().find(|one| one.wanted == "app::Circle").expect("one of the largest kinds");
    assert_eq!((circles.found, circles.blocks.len()), (known["circles"], 3));
    // Its table of functions is no block, and the words behind it are numbers.
    let block = &circles.blocks[0];
    assert!(!block.pointers.is_empty() && block.first[0] == "other bytes" && block.text.is_none(), "{block:?}");
}

#[test]
fn containers_of_libcxx_are_known() {
    let flags = [
        "-O2",
        "-nostdinc++",
        "-isystem/usr/include/c++/v1",
        "-nodefaultlibs",
        "-lc++",
        "-lm",
        "-lc",
        "-lgcc_s",
        "-lgcc",
    ];
    let Some((running, known, _folder)) = started("things.cpp", &flags, "") else { return };
    let contents = read(&running, ReadMode::Running);
    let wanted = [
        ("app::Circle", known["circles"]),
        ("std::map or std::set node", known["nodes"]),
        ("std::list node", known["list"]),
        ("std::unordered_* node", known["hash"]),
        ("std::string data", known["strings"]),
    ];
    for (name, count) in wanted {
        assert_eq!(kind(&contents, name), count, "{name}: {:?}", contents.kinds);
    }
    assert_eq!(contents.leaked.map(|leaked| leaked.blocks), Some(known["lost"]));
}

#[test]
fn tables_trees_and_texts_of_rust_are_known() {
    let Some((running, known, _folder)) = started("things.rs", &["-O"], "") else { return };
    let contents = read(&running, ReadMode::Running);
    let tables: u64 =
        contents.kinds.iter().filter(|row| row.kind.starts_with("hashbrown table")).map(|row| row.blocks).sum();
    assert_eq!(tables, known["tables"], "{:?}", contents.kinds);
    assert_eq!(kind(&contents, "BTreeMap node (Rust)"), known["btree"], "{:?}", contents.kinds);
    assert_eq!(kind(&contents, "String data (Rust)"), known["strings"], "{:?}", contents.kinds);
    assert_eq!(contents.leaked.map(|leaked| leaked.blocks), Some(known["lost"]));
}

#[test]
fn a_hostile_process_costs_no_more_than_its_blocks() {
    let Some((running, known, _folder)) = started("hostile.cpp", &["-O1"], "") else { return };
    let contents = read(&running, ReadMode::Stopped);
    assert!(contents.blocks >= known["blocks"], "{}", contents.blocks);
    assert!(contents.kinds.iter().chain(std::iter::once(&Default::default())).all(|row| row.kind.len() < 1000));
    assert_eq!(contents.leaked.map(|leaked| leaked.blocks), Some(0));
}

#[test]
fn more_than_the_limit_has_kinds_by_a_sample_and_no_leaks() {
    let Some((running, known, _folder)) = started("things.cpp", &["-O2", "-s"], "") else { return };
    let whole = read(&running, ReadMode::Running);
    for limit in [2 << 20, 4096] {
        let found = take(running.pid(), &ContentsRequest { limit, ..WANTED }, Duration::from_secs(60)).unwrap();
        assert_eq!((found.blocks, found.bytes), (whole.blocks, whole.bytes), "what there is is no estimate");
        assert!(found.leaked.is_none() && found.holders.is_empty());
        let reason = "--copy-limit allows more";
        assert!(found.problems.iter().any(|problem| problem.contains(reason)), "{:?}", found.problems);
        let sampled = found.sampled.unwrap();
        assert!(sampled.pages >= 30 && sampled.pages < sampled.of / 2, "{sampled:?}");
        for name in ["std::map or std::set node", "std::unordered_* node", "app::Circle", "std::string data"] {
            let row = found.kinds.iter().find(|row| row.kind == name).unwrap_or_else(|| panic!("{name}"));
            let truth = whole.kinds.iter().find(|row| row.kind == name).unwrap();
            // Three times the interval: the pages that are looked at depend on where the heap is.
            assert!(
                row.bytes.abs_diff(truth.bytes) <= 3 * row.within.unwrap(),
                "{row:?} {truth:?} {}",
                known["circles"]
            );
        }
    }
}

#[test]
fn a_sample_is_taken_of_a_small_heap_if_it_is_wanted() {
    let Some((running, known, _folder)) = started("lost.c", &["-O1"], "") else { return };
    let found = take(running.pid(), &ContentsRequest { is_sampled: true, ..WANTED }, Duration::from_secs(60)).unwrap();
    assert!(found.sampled.is_some() && found.leaked.is_none() && found.holders.is_empty());
    assert!(found.blocks > known["lost"] && found.problems.is_empty(), "{:?}", found.problems);
}

#[test]
fn a_core_has_the_same_contents() {
    let Some((running, known, folder)) = started("things.cpp", &["-O2", "-g"], "") else { return };
    let path = folder.path().join("core");
    let gcore = Command::new("gcore").arg("-o").arg(&path).arg(running.pid().to_string()).output();
    let path = folder.path().join(format!("core.{}", running.pid()));
    if !gcore.is_ok_and(|output| output.status.success()) || !path.exists() {
        return skipped("no gcore, which comes with gdb");
    }
    let contents = take_core(&path, &WANTED, Duration::from_secs(60)).unwrap();
    assert_eq!(contents.leaked.as_ref().map(|leaked| leaked.blocks), Some(known["lost"]), "{:?}", contents.problems);
    assert_eq!(kind(&contents, "app::Circle"), known["circles"]);
    let holder = contents.holders.iter().find(|one| one.name.starts_with("`g_set`")).map(|one| one.blocks);
    assert_eq!((holder, contents.process.pid), (Some(40_000), running.pid()));
    let absent = |contents: &Contents| contents.core.as_ref().unwrap().absent_files.clone();
    let program = std::fs::read_link(format!("/proc/{}/exe", running.pid())).unwrap();
    assert!(!absent(&contents).contains(&program.display().to_string()), "{:?}", contents.core);
    // The names of classes are in the program, and that is told.
    std::fs::rename(&program, folder.path().join("away")).unwrap();
    let bare = take_core(&path, &WANTED, Duration::from_secs(60)).unwrap();
    assert_eq!(absent(&bare).first(), Some(&program.display().to_string()));
    assert_eq!((kind(&bare, "app::Circle"), bare.core.unwrap().missing), (0, 0));
}
