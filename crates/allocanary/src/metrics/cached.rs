//! Decides when the allocator's counters are read. In: how to read them, and how old they may be. Out: the counters and their age.
//!
//! jemalloc adds up the statistics of every arena before it reports any, which takes about 10 microseconds for each. A scrape that waited
//! for 256 arenas would take milliseconds of the service's own thread. So a separate thread makes an expensive sum, and the scrape reports
//! the previous sum.
//!
//! A sum is expensive if it takes much processor time twice in a row. By wall time, a busy machine would start threads for sums that take a
//! microsecond. In a small service the first thread is a tenth of its memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::allocator::Counters;
use allocanary_sys::clocks::thread_cpu_time;

/// The processor time that a scrape may spend on the counters. It is half of the scrape's total, because the scrape
/// also writes the page.
const PATIENCE: Duration = Duration::from_micros(100);
/// After this many expensive readings in a row, a separate thread makes the next reading.
const DEAR: u32 = 2;
/// The size of that thread's stack. It is enough for one call into the allocator, because jemalloc keeps the sum in its own memory.
const STACK: usize = 128 << 10;

/// The counters that were read last. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct CachedCounters {
    /// The maximum age of the counters. With `None` each scrape reads them, until readings are expensive.
    pub stand: Option<Duration>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Last>,
    /// The address space whose thread is reading. The child of a fork has no such thread.
    reader: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    at: Instant,
    /// The number of expensive readings in a row, up to the last one.
    long: u32,
    counters: Counters,
}

impl CachedCounters {
    pub(super) fn counters(&self, read: impl Fn() -> Counters + Send + 'static) -> (Duration, Counters) {
        let Some(last) = self.state().last else { return (Duration::ZERO, self.read(read)) };
        let stands = match self.stand {
            Some(stand) => last.at.elapsed() < stand,
            None => last.long >= DEAR,
        };
        if !stands {
            return (Duration::ZERO, self.read(read));
        }
        if self.stand.is_none() {
            self.read_aside(read);
        }
        (last.at.elapsed(), last.counters)
    }

    fn read(&self, read: impl Fn() -> Counters) -> Counters {
        let start = thread_cpu_time();
        let counters = read();
        let took = thread_cpu_time().saturating_sub(start);
        let mut state = self.state();
        let before = state.last.map_or(0, |last| last.long);
        let long = if took > PATIENCE { before.saturating_add(1) } else { 0 };
        state.last = Some(Last { at: Instant::now(), long, counters });
        counters
    }

    /// Starts a thread that reads the counters, unless a thread is reading. If no thread can be started, the counters
    /// grow old, and their reported age shows it.
    fn read_aside(&self, read: impl Fn() -> Counters + Send + 'static) {
        let here = Some(allocanary_sys::address_space::number());
        if std::mem::replace(&mut self.state().reader, here) == here {
            return;
        }
        let reading = self.clone();
        let work = move || {
            reading.read(read);
            reading.state().reader = None;
        };
        // A thread's name has at most 15 letters.
        if thread::Builder::new().name("allocator-stats".into()).stack_size(STACK).spawn(work).is_err() {
            self.state().reader = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    /// An allocator that counts its readings. Each reading takes this much processor time. The third reading waits until it
    /// is allowed to end.
    fn gated(
        asked: &Arc<AtomicU64>,
        takes: Duration,
        may_end: Arc<AtomicBool>,
    ) -> impl Fn() -> Counters + Send + 'static {
        let asked = Arc::clone(asked);
        move || {
            let start = thread_cpu_time();
            until(|| thread_cpu_time() - start >= takes);
            until(|| asked.load(Ordering::SeqCst) != 2 || may_end.load(Ordering::SeqCst));
            Counters { allocated: Some(asked.fetch_add(1, Ordering::SeqCst) + 1), ..Counters::default() }
        }
    }

    fn slow(asked: &Arc<AtomicU64>, takes: Duration) -> impl Fn() -> Counters + Send + 'static {
        gated(asked, takes, Arc::new(true.into()))
    }

    fn until(done: impl Fn() -> bool) {
        while !done() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_scrape_does_not_wait_for_what_took_long_twice_and_tells_how_old_it_is() {
        let (reading, asked, may_end) = (CachedCounters::default(), Arc::default(), Arc::<AtomicBool>::default());
        let read = || reading.counters(gated(&asked, Duration::from_millis(20), Arc::clone(&may_end)));
        for time in [1, 2] {
            let (age, counters) = read();
            assert_eq!((age, counters.allocated), (Duration::ZERO, Some(time)), "once may be chance");
        }
        let (age, before) = read();
        assert!(age > Duration::ZERO && before.allocated == Some(2), "{age:?} {before:?}");
        let (_, meanwhile) = read();
        assert_eq!(meanwhile.allocated, Some(2));
        may_end.store(true, Ordering::SeqCst);
        until(|| reading.state().reader.is_none());
        assert_eq!(asked.load(Ordering::SeqCst), 3, "one thread at a time");
        assert_eq!(read().1.allocated, Some(3));
        until(|| reading.state().reader.is_none());
    }

    #[test]
    fn a_wait_for_a_processor_is_not_what_reading_takes() {
        // A virtual machine may count time against a thread although the thread did not get it. This is rare, and does
        // not happen ten times.
        let stays_quick = || {
            let (reading, asked) = (CachedCounters::default(), Arc::default());
            (0..2 * DEAR).all(|_| {
                let quick = slow(&asked, Duration::ZERO);
                let waits = move || {
                    thread::sleep(Duration::from_millis(2));
                    quick()
                };
                reading.counters(waits).0 == Duration::ZERO
            })
        };
        assert!((0..10).any(|_| stays_quick()));
    }

    #[test]
    fn a_thread_that_a_fork_left_behind_is_not_waited_for() {
        let (reading, asked) = (CachedCounters::default(), Arc::default());
        let read = || reading.counters(slow(&asked, Duration::from_millis(1)));
        for _ in 0..DEAR {
            read();
        }
        reading.state().reader = Some(0); // no thread's address space
        read();
        until(|| asked.load(Ordering::SeqCst) == 3);
    }

    #[test]
    fn a_time_that_was_asked_for_is_kept_and_then_waited_for() {
        let asked = Arc::default();
        let read = |reading: &CachedCounters| reading.counters(slow(&asked, Duration::from_millis(1)));
        let hour = CachedCounters { stand: Some(Duration::from_secs(3600)), ..CachedCounters::default() };
        assert_eq!([read(&hour).1, read(&hour).1].map(|counters| counters.allocated), [Some(1); 2]);
        let always = CachedCounters { stand: Some(Duration::ZERO), ..CachedCounters::default() };
        assert_eq!([read(&always).1, read(&always).1].map(|counters| counters.allocated), [Some(2), Some(3)]);
    }
}
