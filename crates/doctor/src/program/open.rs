//! Opens files whose names come from others: from a program, a script or a library. In: a path. Out: a regular file.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading. Other kinds of files are refused before they are opened: a FIFO could wait for ever, and a device
/// could do something.
pub fn open(path: &Path) -> Result<File> {
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    if !place.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let through = format!("/proc/self/fd/{}", place.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(through)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;

    #[test]
    fn only_a_regular_file_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let fifo = CString::new(at("fifo").to_str().unwrap()).unwrap();
        // SAFETY: the path ends in NUL.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        std::os::unix::fs::symlink(at("fifo"), at("link")).unwrap();
        for path in [at("fifo"), at("link"), folder.path().into(), "/dev/null".into()] {
            assert_eq!(open(&path).unwrap_err().to_string(), "not a regular file", "{}", path.display());
        }
        assert_eq!(open(&at("none")).unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("to-file")).unwrap();
        assert_eq!(std::io::read_to_string(open(&at("to-file")).unwrap()).unwrap(), "text");
    }
}
