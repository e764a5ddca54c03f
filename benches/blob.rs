//! The cost of a blob's tree in time, bytes and allocations. In: blobs of five sizes whose byte `i` is `i mod 256`, as
//! in Dolt's own benchmark. Out: medians of three builders, taken in turns in one run, next to Dolt's published figures.
//!
//! `naive` makes its builder for every blob, `reuse` keeps it but makes a buffer for every node, `ours` keeps all. SHA-512 is the lower
//! bound: `hash` hashes the same messages and does nothing else. Dolt's benchmark hashes every node twice, once for its store, which checks
//! it. Time is the processor time of the process, so it does not contain other processes' work. The only thread never waits.
//!
//! `cargo bench --bench blob`

use std::alloc::System;
use std::convert::Infallible;
use std::hint::black_box;

use allocanary::Counting;
use allocanary::blob_tree::{BlobTree, Hash};
use allocanary::counting::count;
use allocanary_sys::sys::usage;

#[global_allocator]
static GLOBAL: Counting<System> = Counting::new(System);

/// For each size, Dolt's published bytes and allocations per blob: before its repair, after it, and at today's head, with the head's time
/// on two cores.
const DOLTS: [(usize, Option<[&str; 3]>); 5] = [
    (1000, Some(["460,464 B/17", "2,608 B/8", "2,848 B/13, 6.5 us"])),
    (10_000, Some(["923,121 B/50", "17,560 B/24", "29,448 B/48, 50 us"])),
    (100_000, Some(["1,040,770 B/270", "133,004 B/134", "150,560 B/271, 430 us"])),
    (1_000_000, Some(["2,668,899 B/2543", "1,288,281 B/1269", "1,371,328 B/2545, 4600 us"])),
    (10_000_000, None),
];
const VARIANTS: [&str; 4] = ["naive", "reuse", "ours", "hash"];
const ROUNDS: usize = 61;
/// In a round the blobs of each variant have about this many bytes together.
const ROUND_BYTES: usize = 1 << 20;

fn build(tree: &mut BlobTree, data: &[u8]) -> Hash {
    let built = tree.build(data, data.len() as u64, |_, message| {
        black_box(message);
        Ok::<(), Infallible>(())
    });
    built.unwrap_or_else(|error| panic!("{error}"))
}

fn main() {
    println!("{:>9} {:6} {:>12} {:>12} {:>12}   Dolt", "size", "", "CPU us/blob", "B/blob", "allocs/blob");
    for (size, dolts) in DOLTS {
        let data: Vec<u8> = (0..size).map(|at| at as u8).collect();
        let mut messages = Vec::new();
        let mut keep = |_: &Hash, message: &[u8]| {
            messages.push(message.to_vec());
            Ok::<(), Infallible>(())
        };
        let root = BlobTree::new().build(data.as_slice(), size as u64, &mut keep).unwrap_or_else(|e| panic!("{e}"));

        let (mut reuse, mut ours) = (BlobTree::with_buffer_per_node(), BlobTree::new());
        let mut blob = |variant: usize| match variant {
            0 => build(&mut BlobTree::with_buffer_per_node(), &data),
            1 => build(&mut reuse, &data),
            2 => build(&mut ours, &data),
            _ => messages.iter().fold(Hash::ZERO, |_, message| Hash::of(black_box(message))),
        };
        let blobs = (ROUND_BYTES / size).max(1);
        let mut times = [const { Vec::new() }; VARIANTS.len()];
        for round in 0..ROUNDS {
            for place in 0..VARIANTS.len() {
                let variant = (place + round) % VARIANTS.len(); // so that no variant is always first
                let before = usage();
                for _ in 0..blobs {
                    assert_eq!(blob(variant), root);
                }
                let after = usage();
                let micros = (after.user_us + after.system_us) - (before.user_us + before.system_us);
                times[variant].push(micros as f64 / blobs as f64);
            }
        }
        for (variant, name) in VARIANTS.iter().enumerate() {
            times[variant].sort_by(f64::total_cmp);
            let (_, counts) = count(|| blob(variant)); // its buffers exist by now
            let dolt = dolts.and_then(|published| published.get(variant).copied()).unwrap_or("");
            let dolt = match (variant, dolt) {
                (_, "") => String::new(),
                (0, figures) => format!("published, before: {figures}"),
                (1, figures) => format!("published, after: {figures}"),
                (_, figures) => format!("today's head: {figures}"),
            };
            let (time, bytes, allocations) = (times[variant][ROUNDS / 2], counts.bytes, counts.allocations);
            println!("{size:>9} {name:6} {time:>12.2} {bytes:>12} {allocations:>12}   {dolt}");
        }
    }
}
