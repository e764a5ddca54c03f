//! Idle threads of the web server. In: requests. Out: after the last request, each thread gives its unused memory back once.
//!
//! A thread keeps freed memory in its cache and its arena, and pages of its stack. Another thread cannot give these back. So each thread
//! does this itself, in a task that it runs when it would otherwise wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

/// After this time without a request, the threads count as idle. Scrapes come seconds apart, and those of a crowd directly follow each
/// other.
const QUIET: Duration = Duration::from_millis(200);
/// The longest time for which a thread waits for the others, so that each thread gets one of the tasks. A request that
/// comes during this time waits too.
const MEETING: Duration = Duration::from_millis(20);

/// Counts requests, to notice when no more come.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    requests: AtomicU64,
    came: Notify,
}

impl Quiet {
    /// Notes a request.
    pub(super) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.came.notify_one();
    }

    /// Lets each of the runtime's threads call `give_back` when there were requests and no more come. Never ends.
    pub(super) async fn follow(&self, threads: usize, give_back: fn()) {
        let mut done = 0;
        loop {
            // Without requests no timer runs, because a canary sleeps most of the time. A notification may be for requests that were
            // already handled.
            while self.requests.load(Ordering::Relaxed) == done {
                self.came.notified().await;
            }
            loop {
                let before = self.requests.load(Ordering::Relaxed);
                sleep(QUIET).await;
                done = self.requests.load(Ordering::Relaxed);
                if done == before {
                    break;
                }
            }
            let met = Arc::new((Mutex::new(0), Condvar::new()));
            for _ in 0..threads {
                let met = met.clone();
                tokio::spawn(async move {
                    give_back();
                    meet(&met, threads);
                });
            }
        }
    }
}

/// Waits until all threads are here: a waiting thread cannot take a second task.
fn meet((here, came): &(Mutex<usize>, Condvar), threads: usize) {
    let mut here = here.lock().unwrap_or_else(PoisonError::into_inner);
    *here += 1;
    came.notify_all();
    drop(came.wait_timeout_while(here, MEETING, |here| *here < threads));
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread::ThreadId;

    use super::*;

    static GAVE_BACK: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

    fn give_back() {
        GAVE_BACK.lock().unwrap().push(std::thread::current().id());
    }

    #[test]
    fn each_thread_gives_back_once_after_the_last_request() {
        const THREADS: usize = 4;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_time().build().unwrap();
        let quiet = Arc::new(Quiet::default());
        let follows = quiet.clone();
        runtime.spawn(async move { follows.follow(THREADS, give_back).await });
        let calls = || GAVE_BACK.lock().unwrap().len();
        std::thread::sleep(QUIET * 2);
        assert_eq!(calls(), 0, "nobody has asked yet");
        // Twice. On a busy machine a thread may have had two of the tasks, or the requests may lie so far apart that they
        // are two crowds: then once more.
        let mut good = 0;
        let all_met = (0..40).any(|_| {
            GAVE_BACK.lock().unwrap().clear();
            (0..10).for_each(|_| quiet.request());
            let begun = std::time::Instant::now();
            while calls() < THREADS {
                assert!(begun.elapsed() < Duration::from_secs(60), "{} of {THREADS} calls", calls());
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(QUIET * 2);
            let given = GAVE_BACK.lock().unwrap().clone();
            good += u32::from(given.len() == THREADS && given.iter().collect::<HashSet<_>>().len() == THREADS);
            good == 2
        });
        assert!(all_met, "each thread gave back once {good} times");
    }
}
