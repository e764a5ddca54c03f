//! A pool of threads makes tables, one after the other: each fills a `HashMap` of texts, sorts its keys, and drops it. One table is
//! alive at any time.
//!
//!     rustc -O tables.rs && ./tables [ROWS of a table] [TABLES] [THREADS]
//!
//! Prints a sum that is the same under each allocator.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};

fn table(number: usize, rows: usize) -> usize {
    let mut table: HashMap<String, Vec<u8>> = HashMap::new();
    let mut seed = number as u32 + 1;
    for row in 0..rows {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        table.insert(format!("row {row}: {seed}"), vec![row as u8; 64 + (seed >> 16) as usize % 1500]);
    }
    let mut keys: Vec<&String> = table.keys().collect();
    keys.sort_unstable();
    keys.iter().map(|key| key.len() + table[*key].len()).sum()
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<usize>().expect("a number"));
    let mut number = |default| words.next().unwrap_or(default);
    let (rows, tables, threads) = (number(60_000), number(16), number(8));
    let shared = Arc::new((Mutex::new((0, 0)), Condvar::new()));
    let work = |me: usize| {
        let shared = shared.clone();
        std::thread::spawn(move || {
            let (state, next) = &*shared;
            loop {
                let state = state.lock().expect("no thread panics");
                let mut state =
                    next.wait_while(state, |(turn, _)| *turn < tables && *turn % threads != me).expect("no thread panics");
                if state.0 >= tables {
                    return;
                }
                state.1 += table(state.0, rows);
                state.0 += 1;
                next.notify_all();
            }
        })
    };
    let pool: Vec<_> = (0..threads).map(work).collect();
    pool.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
    println!("{}", shared.0.lock().expect("no thread panics").1);
}
