//! Limits how fast a process's page tables are read. The kernel locks the process's address space while it reads them. If the process maps
//! memory at this time, the process has to wait.

use std::io;
use std::time::{Duration, Instant};

/// The bytes of memory that one call examines. For 4 MiB the kernel holds the lock for some 60 us.
pub(crate) const PIECE: u64 = 4 << 20;
/// After this time of work, reading pauses for at least `PAUSE`.
const WORK: Duration = Duration::from_micros(50);
const PAUSE: Duration = Duration::from_micros(50);

/// The pauses between pieces. Without them the reader would take the lock again before a waiting thread has woken up.
#[derive(Debug)]
pub(crate) struct Pace {
    until: Option<Instant>,
    began: Instant,
}

impl Pace {
    /// Begins the work. At the time `until` it ends.
    pub fn until(until: Option<Instant>) -> Pace {
        Pace { until, began: Instant::now() }
    }

    /// Pauses if a pause is due. To be called before each piece. The error means that the time is over.
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
