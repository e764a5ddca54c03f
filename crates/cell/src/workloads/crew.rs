//! Worker threads that stop together, so that nothing changes while meters read. In: a function for each worker. Out:
//! marks, and the time between them.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::workload::{Moment, WorkloadStage};
use allocanary::idle::{Uncached, wait_in_steps};

/// The place at which workers wait for a mark.
pub struct StartGate {
    /// The number of threads that must arrive to open the gate: all workers and the conductor.
    all: usize,
    /// How many threads have arrived, and how often the gate has opened.
    here: Mutex<(usize, u64)>,
    opened: Condvar,
}

/// A function that a worker calls when it waits for long; see [`wait_in_steps`].
pub type GiveBack<'a> = dyn Fn(bool) -> Option<Uncached> + Sync + 'a;

/// How long a worker waits at a gate before it returns its cached memory.
const SHORT: Duration = Duration::from_millis(10);

impl StartGate {
    fn new(all: usize) -> Self {
        StartGate { all, here: Mutex::new((0, 0)), opened: Condvar::new() }
    }

    /// Waits until all workers have arrived and the conductor has made its mark.
    pub fn stop(&self) {
        self.wait(None);
        self.wait(None);
    }

    /// Like [`StartGate::stop`]. A worker that waits for longer than 10 ms returns its cached memory by `give_back`, if
    /// there is one, and waits on.
    pub fn stop_and(&self, give_back: Option<&GiveBack>) {
        self.wait(give_back);
        self.wait(give_back);
    }

    fn wait(&self, give_back: Option<&GiveBack>) {
        let times = {
            let mut here = self.here.lock().unwrap();
            here.0 += 1;
            if here.0 == self.all {
                *here = (0, here.1 + 1);
                return self.opened.notify_all();
            }
            here.1
        };
        let closed = |here: &mut (usize, u64)| here.1 == times;
        let Some(give_back) = give_back else {
            drop(self.opened.wait_while(self.here.lock().unwrap(), closed).unwrap());
            return;
        };
        wait_in_steps(SHORT, give_back, |timeout| {
            let here = self.here.lock().unwrap();
            let (here, _) = self.opened.wait_timeout_while(here, timeout, closed).unwrap();
            (here.1 != times).then_some(())
        });
    }
}

/// Makes the marks while the workers wait at the gate. For each stop of the workers it must be called exactly once.
pub struct Conductor<'a> {
    gate: &'a StartGate,
    stage: &'a mut dyn WorkloadStage,
    since: Instant,
    active: Duration,
}

impl Conductor<'_> {
    /// Waits for the workers, makes the mark, and lets them go. `live_bytes` is called while they wait.
    pub fn mark(&mut self, moment: Moment, live_bytes: impl FnOnce() -> u64) {
        self.pause(|stage| stage.mark(moment, live_bytes()));
    }

    /// Waits for the workers, sleeps as an idle process, makes the mark, and lets the workers go.
    pub fn mark_after(&mut self, rest: Duration, moment: Moment, live_bytes: impl FnOnce() -> u64) {
        self.pause(|stage| {
            std::thread::sleep(rest);
            stage.mark(moment, live_bytes());
        });
    }

    /// Lets the workers meet without a mark, so that none continues before all have arrived.
    pub fn meet(&mut self) {
        self.pause(|_| ());
    }

    /// The time for which the workers have worked since the last call, without pauses.
    pub fn take_active(&mut self) -> Duration {
        std::mem::take(&mut self.active)
    }

    fn pause(&mut self, meanwhile: impl FnOnce(&mut dyn WorkloadStage)) {
        self.gate.wait(None);
        self.active += self.since.elapsed();
        meanwhile(self.stage);
        self.since = Instant::now();
        self.gate.wait(None);
    }
}

/// Runs `worker` on `threads` threads, and `conduct` on this one.
///
/// Panics if a thread cannot be started. The others already wait at the gate, so the process must end. The panic's text
/// becomes the row's error.
pub fn crew<T>(
    threads: usize,
    stage: &mut dyn WorkloadStage,
    worker: impl Fn(usize, &StartGate) + Sync,
    conduct: impl FnOnce(&mut Conductor) -> T,
) -> T {
    let gate = StartGate::new(threads + 1);
    std::thread::scope(|scope| {
        for index in 0..threads {
            let (gate, worker) = (&gate, &worker);
            let work = move || {
                gate.stop(); // no worker begins before all have arrived and the clock runs
                worker(index, gate);
            };
            let started = std::thread::Builder::new().spawn_scoped(scope, work);
            if let Err(error) = started {
                panic!("could not start thread {} of {threads}: {error}", index + 1);
            }
        }
        gate.wait(None);
        let mut conductor = Conductor { gate: &gate, stage, since: Instant::now(), active: Duration::ZERO };
        gate.wait(None);
        conduct(&mut conductor)
    })
}

/// Runs a workload whose workers stop five times: when the live set is built, when all work is done, after an idle
/// wait, when everything is freed, and once more. Returns the time between the first stop and the second.
pub fn five_stops(
    threads: usize,
    stage: &mut dyn WorkloadStage,
    rest: Duration,
    live_bytes: impl Fn() -> u64,
    worker: impl Fn(usize, &StartGate) + Sync,
) -> Duration {
    crew(threads, stage, worker, |conductor| {
        conductor.mark(Moment::Filled, &live_bytes);
        conductor.take_active(); // building the live set does not count as work
        conductor.mark(Moment::Peak, &live_bytes);
        let active = conductor.take_active();
        conductor.mark_after(rest, Moment::Idle, &live_bytes);
        conductor.mark(Moment::Released, &live_bytes);
        conductor.mark(Moment::Purged, &live_bytes);
        active
    })
}

/// Like [`five_stops`], for a workload whose operations are whole lives: each object is built before the first stop,
/// used before the second, and freed before the fourth. Returns the time of all three parts, without the pauses.
/// `live_bytes` is the live memory when everything is built.
pub fn whole_lives(
    threads: usize,
    stage: &mut dyn WorkloadStage,
    rest: Duration,
    live_bytes: u64,
    worker: impl Fn(usize, &StartGate) + Sync,
) -> Duration {
    crew(threads, stage, worker, |conductor| {
        conductor.mark(Moment::Filled, || live_bytes);
        conductor.mark(Moment::Peak, || live_bytes);
        conductor.mark_after(rest, Moment::Idle, || live_bytes);
        conductor.mark(Moment::Released, || 0);
        let active = conductor.take_active();
        conductor.mark(Moment::Purged, || 0);
        active
    })
}

/// The share of worker `at` of `workers` in `whole`. No two shares differ by more than one.
pub fn share(whole: usize, at: usize, workers: usize) -> usize {
    whole * (at + 1) / workers - whole * at / workers
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct Marks(Vec<(Moment, u64)>);

    impl WorkloadStage for Marks {
        fn mark(&mut self, moment: Moment, live_bytes: u64) {
            self.0.push((moment, live_bytes));
        }
    }

    #[test]
    fn marks_are_made_while_all_workers_stand() {
        let done = AtomicU64::new(0);
        let mut marks = Marks(Vec::new());
        let worker = |_: usize, gate: &StartGate| {
            for _ in 0..2 {
                done.fetch_add(1, Ordering::SeqCst);
                gate.stop();
            }
        };
        let active = crew(8, &mut marks, worker, |conductor| {
            conductor.mark(Moment::Filled, || done.load(Ordering::SeqCst));
            let rest = Duration::from_millis(50);
            conductor.mark_after(rest, Moment::Idle, || done.load(Ordering::SeqCst));
            conductor.take_active()
        });
        assert_eq!(marks.0, [(Moment::Filled, 8), (Moment::Idle, 16)]);
        assert!(active < Duration::from_secs(60) && active > Duration::ZERO);
    }

    /// A clock that starts after the workers would miss the first workers' work while the last ones are started.
    #[test]
    fn the_time_holds_all_that_every_worker_did() {
        let spans = std::sync::Mutex::new(Vec::new());
        let worker = |_: usize, gate: &StartGate| {
            let begun = Instant::now();
            std::hint::black_box((0..1000).sum::<u64>());
            spans.lock().unwrap().push((begun, Instant::now()));
            gate.stop();
        };
        let active = crew(64, &mut Marks(Vec::new()), worker, |conductor| {
            conductor.meet();
            conductor.take_active()
        });
        let spans = spans.into_inner().unwrap();
        let first = spans.iter().map(|(begun, _)| *begun).min().unwrap();
        let last = spans.iter().map(|(_, ended)| *ended).max().unwrap();
        assert!(active >= last - first, "wanted {:?} or more, found {active:?}", last - first);
    }

    #[test]
    fn a_worker_gives_back_where_it_waits_long_and_only_there() {
        let given = AtomicU64::new(0);
        let mut marks = Marks(Vec::new());
        let worker = |_: usize, gate: &StartGate| {
            gate.stop();
            let count = |_| {
                given.fetch_add(1, Ordering::SeqCst);
                None
            };
            gate.stop_and(Some(&count));
            gate.stop();
        };
        crew(4, &mut marks, worker, |conductor| {
            conductor.mark(Moment::Filled, || given.load(Ordering::SeqCst));
            // Waits for a count and not for a time: the mark is made when all have returned their memory.
            conductor.pause(|_| {
                while given.load(Ordering::SeqCst) < 4 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            conductor.meet();
        });
        assert_eq!(marks.0, [(Moment::Filled, 0)]);
        assert!(given.into_inner() >= 4);
    }

    #[test]
    fn shares_add_up() {
        for (whole, workers) in [(160, 3), (8, 16), (0, 4), (7, 1)] {
            assert_eq!((0..workers).map(|at| share(whole, at, workers)).sum::<usize>(), whole);
        }
    }
}
