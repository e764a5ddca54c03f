//! A Rust program of many threads: each allocates, keeps and frees strings. rustc -O threads.rs -o threads-rs

use std::collections::BTreeMap;
use std::thread;

fn work(seed: u32) -> usize {
    let mut kept: BTreeMap<u32, String> = BTreeMap::new();
    let (mut total, mut state) = (0, seed.wrapping_mul(2654435761).wrapping_add(1));
    for _ in 0..20_000 {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        kept.insert(state % 2000, "x".repeat(16 + state as usize % 500));
        total += kept[&(state % 2000)].len();
    }
    total
}

fn main() {
    let threads: Vec<_> = (0..32).map(|seed| thread::spawn(move || work(seed))).collect();
    println!("{}", threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>());
}
