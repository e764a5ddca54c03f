//! Times one in N operations on one thread. In: operations. Out: durations, passed on in batches.

use std::time::Instant;

use crate::workload::Timer;

/// A thread's stopwatch. It keeps 64 durations on the thread's stack, and takes the shared timer's lock once for all of
/// them.
pub struct Laps<'a> {
    timer: &'a dyn Timer,
    every: u32,
    until_next: u32,
    laps: [u64; 64],
    filled: usize,
}

/// A timer that ignores durations.
pub struct Nobody;

impl Timer for Nobody {
    fn record(&self, _laps: &[u64]) {}
}

impl<'a> Laps<'a> {
    /// A stopwatch whose durations nobody reads, because building the live set is not measured.
    pub fn unheard() -> Laps<'static> {
        Laps::new(&Nobody, u32::MAX)
    }

    /// A stopwatch that times the first operation and then one in `every`.
    pub fn new(timer: &'a dyn Timer, every: u32) -> Self {
        Laps { timer, every, until_next: 0, laps: [0; 64], filled: 0 }
    }

    /// Runs `operation`, and times it if its turn has come.
    #[inline]
    pub fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        if self.until_next > 0 {
            self.until_next -= 1;
            return operation();
        }
        self.until_next = self.every - 1;
        let start = Instant::now();
        let result = operation();
        self.laps[self.filled] = start.elapsed().as_nanos() as u64;
        self.filled += 1;
        if self.filled == self.laps.len() {
            self.hand_on();
        }
        result
    }

    fn hand_on(&mut self) {
        self.timer.record(&self.laps[..self.filled]);
        self.filled = 0;
    }
}

impl Drop for Laps<'_> {
    fn drop(&mut self) {
        self.hand_on();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Count(Mutex<usize>);

    impl Timer for Count {
        fn record(&self, laps: &[u64]) {
            *self.0.lock().unwrap() += laps.len();
        }
    }

    #[test]
    fn one_in_so_many_is_timed_and_none_is_lost() {
        for (operations, every, timed) in [(1000, 1, 1000), (1000, 32, 32), (0, 1, 0), (1, 8, 1)] {
            let count = Count(Mutex::new(0));
            let mut laps = Laps::new(&count, every);
            (0..operations).for_each(|_| laps.time(|| ()));
            drop(laps);
            assert_eq!(*count.0.lock().unwrap(), timed);
        }
    }
}
