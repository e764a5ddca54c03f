//! A tokio runtime with many worker threads. One line lets every worker give its memory back when the runtime has been
//! quiet for 100 ms.
//!
//! `cargo run --release -p idle_threads --bin tokio`
//!
//! tokio has a hook before each wait of a worker, `on_thread_park`, and a worker of a busy server waits thousands of
//! times a second. `IDLE_HOOK=park` uses that hook, to show what it costs.

include!("../allocator.rs");

use std::process::ExitCode;
use std::time::{Duration, Instant};

use allocanary::tuning;
use idle_threads::{CLIENTS, LOAD, THREADS, request, when_quiet};

fn main() -> ExitCode {
    let park = std::env::var_os("IDLE_HOOK").is_some_and(|hook| hook == "park");
    idle_threads::main(if park { "tokio, before each wait" } else { "tokio" }, || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        if park {
            builder.on_thread_park(|| drop(tuning::thread_idle()));
        }
        let runtime = builder.worker_threads(THREADS).enable_time().build().expect("threads can be started");
        if !park {
            runtime.spawn(when_quiet(Duration::from_millis(100), || drop(tuning::thread_idle()))); // the hook
        }
        let until = Instant::now() + LOAD;
        let client = |first: usize| async move {
            let mut served = 0;
            while Instant::now() < until {
                request((first + served * CLIENTS) as u64);
                served += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            served as u64
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
