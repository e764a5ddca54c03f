//! A Rust program of many threads. Each allocates, keeps and frees strings. Build: rustc -O threads.rs -o threads-rs
//! Arguments: the number of threads (default 32), and the number of strings of each (default 20,000).

use std::collections::BTreeMap;
use std::thread;

fn work(seed: u32, strings: u32) -> usize {
    let mut kept: BTreeMap<u32, String> = BTreeMap::new();
    let (mut total, mut state) = (0, seed.wrapping_mul(2654435761).wrapping_add(1));
    for _ in 0..strings {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        kept.insert(state % 2000, "x".repeat(16 + state as usize % 500));
        total += kept[&(state % 2000)].len();
    }
    total
}

fn main() {
    let number = |at, otherwise| std::env::args().nth(at).map_or(otherwise, |text| text.parse().expect("a number"));
    let (count, strings) = (number(1, 32), number(2, 20_000));
    let threads: Vec<_> = (0..count).map(|seed| thread::spawn(move || work(seed, strings))).collect();
    println!("{}", threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>());
}
