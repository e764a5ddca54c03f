//! Reads the time-out for receiving of a socket of another process.

use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The time-out of the open file with this number, if it is a socket that has one. If a call on such a socket is interrupted, it ends with
/// EINTR. When it is made again, its time-out starts again.
pub fn time_out(pid: u32, file: u64) -> Option<Duration> {
    // SAFETY: system calls with numbers; each returns a file descriptor of this process's own, or fails.
    let open =
        |result: i64| i32::try_from(result).ok().filter(|fd| *fd >= 0).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    // SAFETY: as above.
    let process = open(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: as above.
    let socket = open(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), file as i32, 0) })?;
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut bytes = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: the kernel writes at most this many bytes to the time, which lives until the call returns.
    let read = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw mut time).cast(),
            &raw mut bytes,
        )
    };
    let time = Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_usec).ok()? * 1000);
    (read == 0 && !time.is_zero()).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_socket_tells_its_time_out_and_a_file_has_none() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = std::process::id();
        let of = |file: i32| time_out(own, file as u64);
        assert_eq!(of(socket.as_raw_fd()), None);
        socket.set_read_timeout(Some(Duration::from_millis(2500))).unwrap();
        assert_eq!(of(socket.as_raw_fd()), Some(Duration::from_millis(2500)));
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!((of(file.as_raw_fd()), of(-1)), (None, None));
    }
}
