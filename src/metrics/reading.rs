//! When the allocator's counters are read. In: how to read them, and how long they may stand. Out: counters, their age.
//!
//! jemalloc adds up the statistics of every arena before it tells any, some 10 microseconds each. A scrape that waited
//! for 256 arenas would take milliseconds of the service's own thread, so a sum that is dear is added up by a thread
//! of its own, and the scrape tells the one before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::allocator::Counters;

/// What a scrape may wait for the counters: half of what a scrape may cost, as the page has to be written too.
const PATIENCE: Duration = Duration::from_micros(100);
/// Enough for one call into the allocator: jemalloc keeps the sum in its own memory, not on the stack.
const STACK: usize = 128 << 10;

/// The counters that were read last. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// How long counters stand; none is as long as it takes to read them without making a scrape wait.
    pub stand: Option<Duration>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Last>,
    /// The process in which a thread is reading: in a child forked meanwhile it is not.
    reader: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    at: Instant,
    took: Duration,
    counters: Counters,
}

impl Reading {
    /// The counters and their age.
    pub(super) fn counters(&self, read: impl Fn() -> Counters + Send + 'static) -> (Duration, Counters) {
        let Some(last) = self.state().last else { return (Duration::ZERO, self.read(read)) };
        let stands = match self.stand {
            Some(stand) => last.at.elapsed() < stand,
            None => last.took > PATIENCE,
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
        let start = Instant::now();
        let counters = read();
        let at = Instant::now();
        self.state().last = Some(Last { at, took: at - start, counters });
        counters
    }

    /// Has a thread read the counters, unless one does. Where none can be had they grow old, and their age says so.
    fn read_aside(&self, read: impl Fn() -> Counters + Send + 'static) {
        let here = Some(std::process::id());
        if std::mem::replace(&mut self.state().reader, here) == here {
            return;
        }
        let reading = self.clone();
        let work = move || {
            reading.read(read);
            reading.state().reader = None;
        };
        // Fifteen letters are all that a thread's name can have.
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
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// An allocator that counts how often it was asked, and takes its time.
    fn slow(asked: &Arc<AtomicU64>, takes: Duration) -> impl Fn() -> Counters + Send + 'static {
        let asked = Arc::clone(asked);
        move || {
            thread::sleep(takes);
            Counters { allocated: Some(asked.fetch_add(1, Ordering::SeqCst) + 1), ..Counters::default() }
        }
    }

    fn until(done: impl Fn() -> bool) {
        while !done() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_scrape_does_not_wait_for_what_took_long_and_tells_how_old_it_is() {
        let (reading, asked) = (Reading::default(), Arc::default());
        let read = || reading.counters(slow(&asked, Duration::from_millis(20)));
        let (age, first) = read();
        assert_eq!((age, first.allocated), (Duration::ZERO, Some(1)), "the first has nothing else to tell");
        let (age, before) = read();
        assert!(age > Duration::ZERO && before.allocated == Some(1), "{age:?} {before:?}");
        let (_, meanwhile) = read();
        assert_eq!(meanwhile.allocated, Some(1));
        until(|| reading.state().reader.is_none());
        assert_eq!(asked.load(Ordering::SeqCst), 2, "one thread at a time");
        assert_eq!(read().1.allocated, Some(2));
        until(|| reading.state().reader.is_none());
    }

    #[test]
    fn what_was_quick_is_read_by_the_scrape_itself() {
        let (reading, asked) = (Reading::default(), Arc::default());
        let read = || reading.counters(slow(&asked, Duration::ZERO));
        read();
        // Sleeping for no time may still take long on a busy machine; the next reading is then another thread's.
        reading.state().last.as_mut().expect("it was read").took = Duration::ZERO;
        assert_eq!(read(), (Duration::ZERO, Counters { allocated: Some(2), ..Counters::default() }));
    }

    #[test]
    fn a_thread_that_a_fork_left_behind_is_not_waited_for() {
        let (reading, asked) = (Reading::default(), Arc::default());
        let read = || reading.counters(slow(&asked, Duration::from_millis(1)));
        read();
        reading.state().reader = Some(0); // nobody's
        read();
        until(|| asked.load(Ordering::SeqCst) == 2);
    }

    #[test]
    fn a_time_that_was_asked_for_is_kept_and_then_waited_for() {
        let asked = Arc::default();
        let read = |reading: &Reading| reading.counters(slow(&asked, Duration::from_millis(1)));
        let hour = Reading { stand: Some(Duration::from_secs(3600)), ..Reading::default() };
        assert_eq!([read(&hour).1, read(&hour).1].map(|counters| counters.allocated), [Some(1); 2]);
        let always = Reading { stand: Some(Duration::ZERO), ..Reading::default() };
        assert_eq!([read(&always).1, read(&always).1].map(|counters| counters.allocated), [Some(2), Some(3)]);
    }
}
