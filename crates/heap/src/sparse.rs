//! Finds the stored parts of a file, without its holes. A hole has only zeroes and need not be read: a sparse core may have holes of
//! terabytes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// The stored ranges within `from..to`, in their order. If the file system does not know about holes, this is the whole
/// range.
pub fn stored(file: &File, range: Range<u64>) -> Vec<Range<u64>> {
    let mut all = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let start = match seek(file, at, libc::SEEK_DATA) {
            Ok(start) if start < range.end => start.max(at),
            Ok(_) => break,
            // There is nothing stored after this place.
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => break,
            Err(_) => at,
        };
        let end = seek(file, start, libc::SEEK_HOLE).map_or(range.end, |end| end.clamp(start + 1, range.end));
        all.push(start..end);
        at = end;
    }
    all
}

fn seek(file: &File, at: u64, what: i32) -> io::Result<u64> {
    let at = i64::try_from(at).map_err(io::Error::other)?;
    // SAFETY: a system call with three numbers and no pointer. It moves the position of the file, but no read depends on this: all reads
    // give their own offset.
    match unsafe { libc::lseek(file.as_raw_fd(), at, what) } {
        found if found >= 0 => Ok(found as u64),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn holes_are_left_out_and_what_is_stored_is_not() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let written = [0, 1 << 30, (1 << 40) - 4096];
        for at in written {
            file.write_all_at(&[7; 4096], at).unwrap();
        }
        let found = stored(&file, 0..1 << 40);
        assert!(written.iter().all(|at| found.iter().any(|one| one.start <= *at && at + 4096 <= one.end)));
        let bytes: u64 = found.iter().map(|one| one.end - one.start).sum();
        assert!(bytes < 1 << 24, "{found:?}: wanted holes told, as ext4, xfs, btrfs, tmpfs and overlayfs do");
        let within = stored(&file, (1 << 30) + 1024..(1 << 30) + 2048);
        assert_eq!((within.len(), within[0].clone()), (1, (1 << 30) + 1024..(1 << 30) + 2048));
        assert!(stored(&file, 1 << 35..1 << 36).is_empty());
    }
}
