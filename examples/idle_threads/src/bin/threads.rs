//! Threads of std that wait for a condition variable. `tuning::wait` waits twice: first for 10 ms. If no work came, the thread gives its
//! memory back and waits on. A busy thread pays nothing.
//!
//! `cargo run --release -p idle_threads --bin threads`

include!("../allocator.rs");

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use allocanary::tuning;
use idle_threads::{CLIENTS, LOAD, THREADS, request};

/// Requests that wait for a thread.
#[derive(Default)]
struct Queue {
    requests: Mutex<VecDeque<u64>>,
    came: Condvar,
    served: AtomicU64,
}

impl Queue {
    fn push(&self, number: u64) {
        self.requests.lock().expect("no request panics").push_back(number);
        self.came.notify_one();
    }

    /// The next request: this is the hook.
    fn next(&self) -> u64 {
        tuning::wait(Duration::from_millis(10), |timeout| {
            let waiting = self.requests.lock().expect("no request panics");
            let empty = |requests: &mut VecDeque<u64>| requests.is_empty();
            self.came.wait_timeout_while(waiting, timeout, empty).expect("no request panics").0.pop_front()
        })
    }
}

fn main() -> ExitCode {
    idle_threads::main("threads with a condition variable", || {
        let queue = Arc::new(Queue::default());
        let until = Instant::now() + LOAD;
        for _ in 0..THREADS {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || {
                loop {
                    let number = queue.next();
                    request(number);
                    queue.served.fetch_add(1, Ordering::Relaxed);
                    if Instant::now() < until {
                        queue.push(number + CLIENTS as u64); // the client asks again
                    }
                }
            });
        }
        (0..CLIENTS as u64).for_each(|number| queue.push(number));
        std::thread::sleep(LOAD);
        // Each client is served at least once, even if a busy machine leaves no time for more.
        while queue.served.load(Ordering::Relaxed) < CLIENTS as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        (queue.served.load(Ordering::Relaxed), ())
    })
}
