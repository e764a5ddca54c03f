//! Writes to a descriptor of a C program. In: bytes. Out: all of them are written, or there is an error, but never a
//! signal.

use std::ffi::c_int;
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

use allocanary_sys::sys::without_write_signals;

/// The longest wait for somebody who reads from the descriptor, in milliseconds.
const PATIENCE_MS: c_int = 30_000;

/// Writes all bytes, and waits even if the descriptor is non-blocking (O_NONBLOCK). The descriptor stays open.
pub fn write_all(descriptor: c_int, bytes: &[u8]) -> Result<()> {
    // SAFETY: the descriptor is not closed here. If it is not open, `write` returns an error.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    without_write_signals(|| {
        let mut rest = bytes;
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait(descriptor)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// Waits until the descriptor takes bytes, or has an error, which the next write returns.
fn wait(descriptor: c_int) -> Result<()> {
    let mut one = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, which is ours.
    match unsafe { libc::poll(&raw mut one, 1, PATIENCE_MS) } {
        0 => Err(Error::new(ErrorKind::TimedOut, format!("nobody has read for {} seconds", PATIENCE_MS / 1000))),
        -1 => Some(Error::last_os_error()).filter(|error| error.kind() != ErrorKind::Interrupted).map_or(Ok(()), Err),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_pipe_without_a_reader_is_an_error_and_no_signal() {
        // SAFETY: the action of a C program. Rust's programs ignore the signal.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let error = write_all(writer.as_raw_fd(), b"profile").unwrap_err();
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGPIPE, before) };
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_socket_that_does_not_wait_gets_all_bytes() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        let bytes: Vec<u8> = (0..4_000_000_u32).map(|at| (at % 251) as u8).collect();
        std::thread::scope(|scope| {
            let written = scope.spawn(|| write_all(writer.as_raw_fd(), &bytes));
            let mut read = vec![0; bytes.len()];
            reader.read_exact(&mut read).unwrap();
            assert!(read == bytes && written.join().unwrap().is_ok());
        });
    }
}
