//! A rayon pool. rayon has no hook before a thread waits, but a broadcast reaches every thread of a pool: the thread that
//! hands out the work sends one when no work came for 100 ms.
//!
//! `cargo run --release -p idle_threads --bin rayon`

include!("../allocator.rs");

use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use allocanary::tuning;
use idle_threads::{CLIENTS, LOAD, THREADS, request};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

fn main() -> ExitCode {
    idle_threads::main("rayon", || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build().expect("threads can be started");
        let (batches, next) = channel::<u64>();
        let (done, answers) = channel();
        std::thread::spawn(move || {
            // Whether a batch was served since the last broadcast.
            let mut busy = false;
            loop {
                let longest = if busy { Duration::from_millis(100) } else { Duration::MAX };
                match next.recv_timeout(longest) {
                    Ok(batch) => {
                        let numbers = batch * CLIENTS as u64..(batch + 1) * CLIENTS as u64;
                        let blocks: usize = pool.install(|| numbers.into_par_iter().map(request).sum());
                        assert!(blocks > 0, "a request has blocks");
                        busy = true;
                        let _ = done.send(CLIENTS as u64);
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        pool.broadcast(|_| drop(tuning::thread_idle())); // the hook
                        busy = false;
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        let until = Instant::now() + LOAD;
        let mut served = 0;
        for batch in 0.. {
            batches.send(batch).expect("the pool lives");
            served += answers.recv().expect("no request panics");
            if Instant::now() >= until {
                break;
            }
        }
        (served, batches)
    })
}
