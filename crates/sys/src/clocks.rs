//! The kernel's clocks that do not change with the wall clock.

use std::time::Duration;

/// The monotonic clock, in nanoseconds.
pub fn monotonic_nanos() -> u64 {
    now(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// The processor time of the calling thread, including its time in the kernel. It does not advance while the thread
/// does not run.
pub fn thread_cpu_time() -> Duration {
    now(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn now(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_has_no_processor() {
        let sleeps = || {
            let (before, ran) = (monotonic_nanos(), thread_cpu_time());
            std::thread::sleep(Duration::from_millis(20));
            let (passed, ran) = (monotonic_nanos() - before, thread_cpu_time() - ran);
            passed >= 20_000_000 && ran < Duration::from_millis(20)
        };
        // A virtual machine may charge a thread with time in which it did not run: rarely, and not ten times in a row.
        assert!((0..10).any(|_| sleeps()));
    }
}
