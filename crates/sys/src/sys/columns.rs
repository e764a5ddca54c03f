//! The width of a terminal, in columns.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// The columns of a terminal; `None` for a file, a pipe, or a terminal that does not know its size.
pub fn columns(terminal: impl AsFd) -> Option<u16> {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: `TIOCGWINSZ` writes a `winsize`, for which there is room, and all of whose bit patterns are valid.
    let (known, size) = unsafe {
        let done = libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCGWINSZ, size.as_mut_ptr());
        (done == 0, size.assume_init())
    };
    (known && size.ws_col > 0).then_some(size.ws_col)
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn what_is_no_terminal_has_no_width() {
        assert_eq!(columns(std::fs::File::open("/dev/null").unwrap()), None);
    }
}
