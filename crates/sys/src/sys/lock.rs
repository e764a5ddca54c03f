//! Locks files for this process.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Locks a whole file for this process, without waiting; `false` if another process has the lock. The lock ends with
/// the file's last descriptor, so a killed process leaves none behind.
pub fn try_lock(file: &File) -> std::io::Result<bool> {
    // SAFETY: the descriptor is the file's, which is borrowed meanwhile.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = std::io::Error::last_os_error();
    if error.kind() == std::io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_locked_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::create(folder.path().join("file")).unwrap();
        let (first, second) = (open(), open());
        assert!(try_lock(&first).unwrap() && try_lock(&first).unwrap());
        assert!(!try_lock(&second).unwrap());
        drop(first);
        // The child of another test's fork may hold the first descriptor for a moment.
        while !try_lock(&second).unwrap() {
            std::thread::yield_now();
        }
    }
}
