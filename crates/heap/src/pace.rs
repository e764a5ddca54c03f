//! How fast a process's page tables are read. The kernel holds the lock of its address space meanwhile, and who wants to map waits.

use std::io;
use std::time::{Duration, Instant};

/// The bytes of memory whose pages are asked for at once. For 4 MiB the lock is held for some 60 us.
pub(crate) const PIECE: u64 = 4 << 20;
/// After so long a pause is made, and so long at least it is.
const WORK: Duration = Duration::from_micros(50);
const PAUSE: Duration = Duration::from_micros(50);

/// The pauses between pieces. Without them a reader takes the lock again before the one who waits has woken up.
#[derive(Debug)]
pub(crate) struct Pace {
    until: Option<Instant>,
    began: Instant,
}

impl Pace {
    /// Begins. From `until` on nothing more is read.
    pub fn until(until: Option<Instant>) -> Pace {
        Pace { until, began: Instant::now() }
    }

    /// Before each piece: makes a pause if it is time for one. The error is that the time is over.
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
