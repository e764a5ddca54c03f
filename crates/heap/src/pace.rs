//! Limits how fast a process's page tables are read. The kernel locks the process's address space while it reads them.
//! If the process maps memory at this time, it has to wait.

use std::io;
use std::time::{Duration, Instant};

/// How many bytes of memory are examined in one call. For 4 MiB the lock is held for some 60 us.
pub(crate) const PIECE: u64 = 4 << 20;
/// After this time of work there is a pause, which lasts at least `PAUSE`.
const WORK: Duration = Duration::from_micros(50);
const PAUSE: Duration = Duration::from_micros(50);

/// The pauses between pieces. Without them the reader would take the lock again before a waiting thread has woken up.
#[derive(Debug)]
pub(crate) struct Pace {
    until: Option<Instant>,
    began: Instant,
}

impl Pace {
    /// Begins the work. Nothing is read after the time `until`.
    pub fn until(until: Option<Instant>) -> Pace {
        Pace { until, began: Instant::now() }
    }

    /// Call it before each piece: makes a pause if one is due. The error means that the time is over.
    pub fn next(&mut self) -> io::Result<()> {
        if self.began.elapsed() >= WORK {
            std::thread::sleep(PAUSE);
            self.began = Instant::now();
        }
        match self.until {
            Some(until) if Instant::now() >= until => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_its_time_nothing_more_is_read() {
        assert!(Pace::until(None).next().is_ok());
        let error = Pace::until(Some(Instant::now())).next().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
