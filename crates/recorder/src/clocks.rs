//! The clocks of a trace. Out: the processor's clock and the system's at one moment, from which a reader computes the
//! time of each event.

use super::tls::ticks;

/// A clock of the system, in nanoseconds.
pub(super) fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The ticks of the processor's clock, and the nanoseconds of the monotonic clock at that moment.
pub(super) fn ticks_and_nanos() -> (u64, u64) {
    closest(ticks, || clock(libc::CLOCK_MONOTONIC))
}

/// Reads both clocks several times, and uses the attempt in which the least time passed. On a busy machine a thread may
/// lose its processor between the two readings. With one attempt, the times of events were some ten milliseconds later
/// than the marks of the run.
fn closest(mut ticks: impl FnMut() -> u64, mut nanos: impl FnMut() -> u64) -> (u64, u64) {
    const ATTEMPTS: usize = 8;
    let mut best = (u64::MAX, (0, 0));
    for _ in 0..ATTEMPTS {
        let before = ticks();
        let at = nanos();
        let passed = ticks().saturating_sub(before);
        if passed < best.0 {
            best = (passed, (before + passed / 2, at));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_thread_that_loses_its_processor_between_two_readings_reads_again() {
        let now = Cell::new(1_000);
        let read = |costs: u64| {
            now.set(now.get() + costs);
            now.get()
        };
        // The thread loses its processor in most attempts, before or after the second clock is read.
        let lost = Cell::new(0);
        let nanos = || {
            lost.set(lost.get() + 1);
            let (before, after) = [(5_000, 0), (0, 5_000), (7, 3)][lost.get() % 3];
            let nanos = read(before) * 10;
            read(after);
            nanos
        };
        let (ticks, nanos) = closest(|| read(1), nanos);
        assert!(ticks > 1_000 && nanos.abs_diff(ticks * 10) <= 50, "{nanos} ns at {ticks} ticks of 10 ns");
    }
}
