//! tokio's blocking pool. Its threads have no hook before they wait. But a thread that had no work for a while ends, after 10 s by default
//! and after 200 ms here. It gives its memory back when it ends.
//!
//! `cargo run --release -p idle_threads --bin tokio_blocking`

include!("../allocator.rs");

use std::process::ExitCode;
use std::time::{Duration, Instant};

use allocanary::tuning;
use idle_threads::{CLIENTS, LOAD, THREADS, request};

fn main() -> ExitCode {
    idle_threads::main("tokio's blocking pool", || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(THREADS)
            .thread_keep_alive(Duration::from_millis(200))
            .on_thread_stop(|| drop(tuning::thread_idle())) // the hook
            .build()
            .expect("threads can be started");
        let until = Instant::now() + LOAD;
        let client = |first: usize| async move {
            let mut served = 0;
            loop {
                let number = (first + served * CLIENTS) as u64;
                tokio::task::spawn_blocking(move || request(number)).await.expect("no request panics");
                served += 1;
                if Instant::now() >= until {
                    return served as u64;
                }
            }
        };
        let served = runtime.block_on(async {
            let clients: Vec<_> = (0..CLIENTS).map(|first| tokio::spawn(client(first))).collect();
            let mut served = 0;
            for client in clients {
                served += client.await.expect("no request panics");
            }
            served
        });
        (served, runtime)
    })
}
