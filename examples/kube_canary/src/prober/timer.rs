//! A timer. In: nanoseconds. Out: one wake-up.
//!
//! tokio's own timer wakes this process up to three times for one sleep: its wheel sorts longer sleeps again every 64 ms,
//! and learns of a shorter sleep through an event. With few peers this would be most of a canary's work.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const SECOND: u64 = 1_000_000_000;

/// A timer of the kernel.
pub struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// A timer that is not set. Must be called within a tokio runtime.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointer.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above made the descriptor, and nothing else owns it.
        let owned = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: an owned descriptor stays the same, and open, for as long as it lives.
        let registered = unsafe { AsyncFd::register_with_interest(owned, Interest::READABLE) };
        registered.map(Timer).map_err(|failed| failed.into_parts().1)
    }

    /// Sets the timer to expire once, `nanos` nanoseconds from now. This replaces an earlier setting.
    pub fn set(&self, nanos: u64) -> io::Result<()> {
        // Zero would switch it off.
        let nanos = nanos.max(1);
        // SAFETY: all zeroes are times of zero.
        let mut time: libc::itimerspec = unsafe { std::mem::zeroed() };
        time.it_value.tv_sec = (nanos / SECOND) as _;
        time.it_value.tv_nsec = (nanos % SECOND) as _;
        // SAFETY: the time lives through the call, and the old time is not requested.
        let done = unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const time, std::ptr::null_mut()) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits until it has expired. Nothing is read from it: setting it again clears the expiry.
    pub async fn expired(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn it_expires_once_for_each_setting() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let timer = Timer::new().unwrap();
            for nanos in [0, 3_000_000, 1_000_000] {
                let begun = Instant::now();
                timer.set(SECOND * 3600).unwrap();
                timer.set(nanos).unwrap();
                timer.expired().await.unwrap();
                assert!(begun.elapsed().as_nanos() >= u128::from(nanos));
            }
        });
    }
}
