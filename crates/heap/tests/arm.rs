//! Cores of programs for aarch64, read on any processor. `examples/vm/arm.sh` made them in an emulated machine, and with each core the line
//! in which the program wrote its own and its allocator's counts.

#![allow(clippy::disallowed_methods)]

mod mallinfo;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use allocanary_heap::{CoreFile, Memory, PAGE, PartsCertainty, Processor, take_core, walk_all};
use allocanary_walkers::system as glibc;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cores")
}

/// The core of a name. Of its pages those are written that are not full of zeroes: most are.
fn unpacked(name: &str, to: &Path) -> PathBuf {
    let packed = File::open(folder().join(format!("{name}.gz"))).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let path = to.join(name);
    let core = File::create(&path).unwrap();
    core.set_len(bytes.len() as u64).unwrap();
    for (at, page) in (0..).step_by(PAGE as usize).zip(bytes.chunks(PAGE as usize)) {
        if page.iter().any(|byte| *byte != 0) {
            core.write_all_at(page, at).unwrap();
        }
    }
    path
}

/// The lines of the programs: for each core its counts.
fn figures() -> BTreeMap<String, BTreeMap<String, u64>> {
    let text = fs::read_to_string(folder().join("figures")).unwrap();
    let of = |line: &str| {
        let (name, counts) = line.split_once(' ')?;
        let count = |pair: &str| pair.split_once('=').map(|(name, count)| (name.into(), count.parse().unwrap()));
        Some((name.to_string(), counts.split(' ').filter_map(count).collect()))
    };
    text.lines().filter_map(of).collect()
}

#[test]
fn every_core_of_another_processor_is_exact() {
    let to = tempfile::tempdir().unwrap();
    let figures = figures();
    assert!(figures.len() >= 6, "{figures:?}");
    for (name, wanted) in figures {
        let path = unpacked(&name, to.path());
        let core = CoreFile::open(&path, None).unwrap();
        assert_eq!((core.machine().processor, core.machine().page), (Processor::Aarch64, wanted["page"]), "{name}");
        let reading = take_core(&path, Duration::MAX).unwrap();
        assert_eq!((reading.heaps.len(), &reading.problems), (1, &Vec::new()), "{name}");
        let heap = &reading.heaps[0];
        assert_eq!(heap.sure, PartsCertainty::Exact, "{name}: {:?}", heap.checks);
        assert!(name.starts_with(heap.allocator.trim_end_matches("'s malloc")) || name.starts_with("static"), "{name}");
        // What the C library and C++ hold themselves.
        let others = heap.blocks.checked_sub(wanted["blocks"]);
        assert!(others.is_some_and(|others| others < 16) && heap.live >= wanted["held"], "{name}: {heap:?}");
        let walk = walk_all(&core).remove(0).unwrap();
        if let Some(active) = wanted.get("active") {
            assert_eq!(walk.checks[0].found, *active, "{name}");
            // Beside the blocks, `stats.allocated` has the stacks of the three threads' caches, which are equally long.
            let stacks = wanted["allocated"] - walk.live - walk.cached;
            assert!(stacks > 0 && stacks.is_multiple_of(3), "{name}: {stacks}");
        }
        if wanted.contains_key("arena") {
            let mut wanted = wanted.clone();
            wanted.retain(|name, _| !["page", "held", "blocks"].contains(&name.as_str()));
            let heap = glibc::read(&core).unwrap().unwrap();
            assert_eq!(mallinfo::counts(&heap), wanted, "{name}");
        }
    }
}
