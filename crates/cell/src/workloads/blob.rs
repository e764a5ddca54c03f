//! `blob`: builds the trees of large values, as Dolt does when it stores a text. It uses buffers of 4 KiB that live for
//! a microsecond, and SHA-512.
//!
//! It has the three ways to get buffers for which Dolt published figures: new buffers for each value, kept arrays with
//! a new buffer for each node, and no new buffers. Trees and hashes are the same byte for byte, so the three differ
//! only in the allocator's work.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::crew::{StartGate, five_stops};
use super::laps::Laps;
use crate::room;
use crate::workload::{Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary::blob_tree::{BlobTree, Hash};
use allocanary_facts::setting::SettingKind;
use allocanary_sys::rng::Rng;

pub const WORKLOAD: Workload = Workload {
    name: "blob",
    about: "builds hashed trees of large values, buffers anew for each, partly kept, or all kept",
    operation: "blob",
    parameters: &[
        parameter("variant", VARIANTS, "ours", "naive: all buffers anew; reuse: one for each node; ours: none"),
        parameter("size", SettingKind::Size { min: 1, max: 1 << 30 }, "100000", "bytes of a blob"),
        parameter("blobs", COUNT, "1000", "blobs built in all, shared among the threads"),
        parameter("input", INPUTS, "repeating", "repeating: byte i is i mod 256; random: by the seed"),
        parameter("settle", WAIT, "50ms", "rest before `idle` is read"),
    ],
    seconds: 0.4,
    grows_with: &["size", "blobs"],
    rests: None,
    run,
};

const COUNT: SettingKind = SettingKind::Number { min: 1, max: 1_000_000_000 };
const VARIANTS: SettingKind =
    SettingKind::words(&[Cow::Borrowed("naive"), Cow::Borrowed("reuse"), Cow::Borrowed("ours")]);
const INPUTS: SettingKind = SettingKind::words(&[Cow::Borrowed("repeating"), Cow::Borrowed("random")]);

/// An upper bound for a thread's builder, in bytes. It has two buffers of 4 KiB, and 5600 B for each level. The largest
/// blob has four levels.
const BUILDER: usize = 32 << 10;

/// Dolt's own root hashes for the repeating input.
const DOLTS: [(usize, &str); 4] = [
    (1000, "al9b1uhvinu9460vfldsbmveaphquc1h"),
    (10_000, "vag2g6m8h2cc8rdvbmuatji1lgqv5qb5"),
    (100_000, "2b1g951j1d143nvonnns3vh7hhahv2qi"),
    (1_000_000, "96uslk8i5ld870bn2tpjkcmn9cg3jm7f"),
];

fn input(kind: &str, size: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    match kind {
        "repeating" => (0..size).map(|at| at as u8).collect(),
        _ => (0..size).map(|_| rng.next() as u8).collect(),
    }
}

fn build(tree: &mut BlobTree, data: &[u8]) -> Result<Hash, String> {
    // Each node is dropped, because the measurement does not include storing nodes.
    let built = tree.build(data, data.len() as u64, |_, _| Ok::<(), Infallible>(()));
    built.map_err(|error| error.to_string())
}

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let (variant, size, kind) = (setup.word("variant")?, setup.number("size")?, setup.word("input")?);
    let (share, idle) = ((setup.number("blobs")? / setup.threads).max(1), setup.time("settle")?);
    let builder = || if variant == "ours" { BlobTree::new() } else { BlobTree::with_buffer_per_node() };
    // One input for all threads, because it is only read.
    room::check_blocks((size + setup.threads * BUILDER) as u64, "parameter `size`")?;
    let data = RwLock::new(input(kind, size, setup.seed));
    let wanted = build(&mut BlobTree::new(), &data.read().unwrap())?;
    let dolts = DOLTS.iter().find(|(known, _)| *known == size && kind == "repeating").map(|(_, root)| *root);
    if dolts.is_some_and(|dolts| dolts != wanted.to_string()) {
        return Err(format!("the root of {size} bytes: wanted {}, found {wanted}", dolts.unwrap_or_default()));
    }

    let held: Vec<AtomicU64> = (0..setup.threads).map(|_| AtomicU64::new(0)).collect();
    let (allocations, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let worker = |worker: usize, gate: &StartGate| {
        let mut laps = Laps::new(setup.timer, 1);
        // The builder that is kept between values, if any.
        let mut kept = (variant != "naive").then(builder);
        let blob = |kept: &mut Option<BlobTree>, data: &[u8]| {
            let mut new = None;
            let tree = kept.as_mut().unwrap_or_else(|| new.insert(builder()));
            let before = tree.asked();
            let root = build(tree, data).unwrap_or_else(|problem| panic!("{problem}"));
            assert_eq!(root, wanted, "the root of a blob built from the same bytes");
            (tree.asked().allocations - before.allocations, tree.asked().bytes - before.bytes)
        };
        let stop = |kept: &Option<BlobTree>| {
            held[worker].store(kept.as_ref().map_or(0, BlobTree::held_bytes), Ordering::Relaxed);
            gate.stop();
        };
        let guard = data.read().unwrap();
        blob(&mut kept, &guard);
        stop(&kept); // filled: the builders are warm
        let (mut asked, mut asked_bytes) = (0, 0);
        for _ in 0..share {
            let (allocations, bytes) = laps.time(|| blob(&mut kept, &guard));
            asked += allocations;
            asked_bytes += bytes;
        }
        allocations.fetch_add(asked, Ordering::Relaxed);
        bytes.fetch_add(asked_bytes, Ordering::Relaxed);
        drop(guard);
        stop(&kept); // peak
        stop(&kept); // idle
        kept = None;
        if worker == 0 {
            *data.write().unwrap() = Vec::new();
        }
        stop(&kept); // released
        gate.stop(); // purged
    };

    let live = || {
        let builders: u64 = held.iter().map(|held| held.load(Ordering::Relaxed)).sum();
        builders + data.read().unwrap().capacity() as u64
    };
    let active = five_stops(setup.threads, stage, idle, live, worker);
    stage.note("work_allocations", allocations.into_inner());
    stage.note("work_allocated_bytes", bytes.into_inner());
    let operations = (share * setup.threads) as u64;
    Ok(Outcome { operations, active, timed_every: 1, verified: operations })
}
