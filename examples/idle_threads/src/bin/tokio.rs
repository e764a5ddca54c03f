//! A tokio runtime with many worker threads. One line lets every worker give its memory back when the runtime has been
//! quiet for 100 ms.
//!
//! `cargo run --release -p idle_threads --bin tokio`

include!("../allocator.rs");

use std::process::ExitCode;
use std::time::{Duration, Instant};

use allocanary::tuning;
use idle_threads::{CLIENTS, LOAD, THREADS, request, when_quiet};

fn main() -> ExitCode {
    idle_threads::main("tokio", || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_time()
            .build()
            .expect("threads can be started");
        runtime.spawn(when_quiet(Duration::from_millis(100), || drop(tuning::thread_idle()))); // the hook
        let until = Instant::now() + LOAD;
        let client = |first: usize| async move {
            let mut served = 0;
            loop {
                request((first + served * CLIENTS) as u64);
                served += 1;
                if Instant::now() >= until {
                    return served as u64;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
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
