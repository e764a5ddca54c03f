//! Makes every worker of a tokio runtime give its memory back when the whole runtime has been quiet for a while. In: the runtime's own
//! count of busy time. Out: one call of the hook in each worker. Workers with work to do pay nothing.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;

/// The longest time that a worker waits for the others, so that each worker gets one of the tasks.
const MEETING: Duration = Duration::from_millis(20);

/// Calls `give_back` in each worker of the current runtime when the workers were busy for less than 1 % of `every`. It is called only once
/// until there is work again. Never ends: spawn it.
pub async fn when_quiet(every: Duration, give_back: fn()) {
    let runtime = Handle::current();
    let workers = runtime.metrics().num_workers();
    let busy_time = || {
        let metrics = runtime.metrics();
        (0..workers).map(|worker| metrics.worker_total_busy_duration(worker)).sum::<Duration>()
    };
    let mut before = busy_time();
    let mut given = false;
    loop {
        tokio::time::sleep(every).await;
        let now = busy_time();
        let quiet = now.saturating_sub(before) < every / 100;
        if quiet && !given {
            let met = Arc::new((Mutex::new(0), Condvar::new()));
            for _ in 0..workers {
                let met = Arc::clone(&met);
                tokio::spawn(async move {
                    give_back();
                    meet(&met, workers);
                });
            }
        }
        given = quiet;
        before = now;
    }
}

/// Waits until all workers are here. A worker that waits cannot take a second task.
fn meet((here, came): &(Mutex<usize>, Condvar), workers: usize) {
    let mut here = here.lock().expect("nobody panics with it");
    *here += 1;
    came.notify_all();
    drop(came.wait_timeout_while(here, MEETING, |here| *here < workers));
}
