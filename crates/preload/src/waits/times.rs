//! Times in nanoseconds. In: C's structures, clocks. Out: numbers.

pub type Nanos = u64;

const SECOND: Nanos = 1_000_000_000;

/// A clock's time.
pub fn now(clock: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as Nanos).saturating_mul(SECOND).saturating_add(time.tv_nsec as Nanos)
}

/// The monotonic clock.
pub fn monotonic() -> Nanos {
    now(libc::CLOCK_MONOTONIC)
}

/// The monotonic clock at the kernel's last tick, which costs less.
pub fn coarse() -> Nanos {
    now(libc::CLOCK_MONOTONIC_COARSE)
}

/// Converts C's time; `None` if the kernel would refuse it.
pub fn nanos_of(time: &libc::timespec) -> Option<Nanos> {
    let (seconds, rest) = (Nanos::try_from(time.tv_sec).ok()?, Nanos::try_from(time.tv_nsec).ok()?);
    (rest < SECOND).then(|| seconds.saturating_mul(SECOND).saturating_add(rest))
}

pub fn timespec(nanos: Nanos) -> libc::timespec {
    libc::timespec { tv_sec: (nanos / SECOND) as _, tv_nsec: (nanos % SECOND) as _ }
}

/// Converts poll's milliseconds; a negative number means no end.
pub fn nanos_of_millis(millis: i32) -> Option<Nanos> {
    Nanos::try_from(millis).ok().map(|millis| millis * 1_000_000)
}

/// Converts to whole milliseconds, rounded up, because a wait must not end too early.
pub fn millis(nanos: Option<Nanos>) -> i32 {
    nanos.map_or(-1, |nanos| i32::try_from(nanos.div_ceil(1_000_000)).unwrap_or(i32::MAX))
}

/// The remaining time of a wait.
#[derive(Clone, Copy)]
pub struct Until(Option<Nanos>);

impl Until {
    /// A wait from now on, for `total`; `None` has no end.
    pub fn after(total: Option<Nanos>) -> Self {
        Until(total.map(|total| monotonic().saturating_add(total)))
    }

    /// The remaining time; `None` has no end.
    pub fn left(self) -> Option<Nanos> {
        self.0.map(|end| end.saturating_sub(monotonic()))
    }
}

/// A time in select's form, rounded down to microseconds.
pub(super) fn timeval(nanos: Nanos) -> libc::timeval {
    libc::timeval { tv_sec: (nanos / 1_000_000_000) as _, tv_usec: (nanos % 1_000_000_000 / 1000) as _ }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_so_that_no_wait_is_shorter() {
        assert_eq!([None, Some(0), Some(1), Some(1_000_001)].map(millis), [-1, 0, 1, 2]);
        assert_eq!(millis(Some(u64::MAX)), i32::MAX);
        assert_eq!([-1, 0, 7].map(nanos_of_millis), [None, Some(0), Some(7_000_000)]);
        let time = timespec(1_500_000_000);
        assert_eq!((time.tv_sec, time.tv_nsec, nanos_of(&time)), (1, 500_000_000, Some(1_500_000_000)));
        assert_eq!(nanos_of(&libc::timespec { tv_sec: 0, tv_nsec: 1_000_000_000 }), None);
        assert_eq!(nanos_of(&libc::timespec { tv_sec: -1, tv_nsec: 0 }), None);
    }
}
