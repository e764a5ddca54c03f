//! A Rust service of 8 threads. Each keeps strings, and hands every third one to its neighbour, which frees it. When it is done, it keeps a
//! third of them, and waits until it is killed. Build: rustc -O handover.rs -o handover-rs

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::{scope, sleep};
use std::time::Duration;

const THREADS: usize = 8;
const KEPT: usize = 6000;
const STEPS: u32 = 200_000;

static INBOXES: [Mutex<Vec<String>>; THREADS] = [const { Mutex::new(Vec::new()) }; THREADS];
static LEFT: AtomicUsize = AtomicUsize::new(THREADS);

fn rest() {
    sleep(Duration::from_millis(5));
}

fn work(own: usize) {
    let mut kept = vec![String::new(); KEPT];
    let mut state = (own as u32).wrapping_mul(2654435761).wrapping_add(1);
    for step in 0..STEPS {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        let most = if (state >> 4) % 16 == 0 { 6000 } else { 500 };
        let fresh = "x".repeat(16 + (state >> 8) as usize % most);
        let old = std::mem::replace(&mut kept[(state >> 12) as usize % KEPT], fresh);
        if step % 3 != 0 {
            continue;
        }
        // A neighbour that is behind gets no more strings. Otherwise the memory would depend on the scheduler.
        let mut inbox = INBOXES[(own + 1) % THREADS].lock().unwrap();
        if inbox.len() < 500 {
            inbox.push(old);
        }
        drop(inbox);
        if step % 300 == 0 {
            let mine = std::mem::take(&mut *INBOXES[own].lock().unwrap());
            drop(mine);
        }
    }
    kept.truncate(KEPT / 3);
    LEFT.fetch_sub(1, SeqCst);
    loop {
        rest();
    }
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder"));
    println!("ready");
    while !folder.join("go").exists() {
        rest();
    }
    scope(|scope| {
        (0..THREADS).for_each(|own| drop(scope.spawn(move || work(own))));
        while LEFT.load(SeqCst) > 0 {
            rest();
        }
        std::fs::write(folder.join("done"), "").unwrap();
    });
}
