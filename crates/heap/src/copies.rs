//! Copies of a process's memory. In: ranges of addresses, and where their bytes go. Out: which of them were copied. One call copies many.

use std::io;

/// The most ranges of one call: the kernel's `UIO_MAXIOV`.
const MOST: usize = 1024;

/// The process has ended, or it may not be read any more: nothing can be read.
#[derive(Debug)]
pub(crate) struct Ended;

/// A range of addresses, and where its bytes go.
#[derive(Debug)]
pub(crate) struct Range<'a> {
    /// Its first address.
    pub at: u64,
    /// As many bytes as it has.
    pub into: &'a mut [u8],
}

/// Copies each range. Returns for each whether all of it was copied.
pub(crate) fn copy(pid: u32, ranges: &mut [Range]) -> Result<Vec<bool>, Ended> {
    let mut copied = vec![false; ranges.len()];
    let mut next = 0;
    while next < ranges.len() {
        let end = ranges.len().min(next + MOST);
        // The kernel stops at the first range that it cannot read.
        let count = call(pid, &mut ranges[next..end])?;
        copied[next..next + count].fill(true);
        next = end.min(next + count + 1);
    }
    Ok(copied)
}

/// One call. Returns how many ranges were copied, from the first one on.
fn call(pid: u32, ranges: &mut [Range]) -> Result<usize, Ended> {
    let vector = |base: *mut libc::c_void, range: &Range| libc::iovec { iov_base: base, iov_len: range.into.len() };
    let local: Vec<libc::iovec> =
        ranges.iter_mut().map(|range| vector(range.into.as_mut_ptr().cast(), range)).collect();
    let remote: Vec<libc::iovec> = ranges.iter().map(|range| vector(range.at as *mut libc::c_void, range)).collect();
    let count = ranges.len() as libc::c_ulong;
    // SAFETY: `local` has the buffers that were borrowed for writing, with their lengths. Only the kernel uses the remote addresses, and
    // checks them.
    let bytes = unsafe { libc::process_vm_readv(pid as _, local.as_ptr(), count, remote.as_ptr(), count, 0) };
    if bytes < 0 && matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ESRCH | libc::EPERM)) {
        return Err(Ended);
    }
    let mut left = usize::try_from(bytes).unwrap_or(0);
    let is_whole = |range: &&Range| match left.checked_sub(range.into.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    Ok(ranges.iter().take_while(is_whole).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_gone_does_not_keep_the_others_from_being_copied() {
        let there: Vec<u8> = (0..100).collect();
        let mut into = vec![[0; 10]; 3000];
        // Every seventh one is nowhere.
        let place =
            |index: usize| if index.is_multiple_of(7) { 4096 } else { there.as_ptr() as u64 + index as u64 % 90 };
        let mut ranges: Vec<Range> =
            into.iter_mut().enumerate().map(|(index, into)| Range { at: place(index), into }).collect();
        let copied = copy(std::process::id(), &mut ranges).unwrap();
        for (index, (bytes, copied)) in into.iter().zip(copied).enumerate() {
            assert_eq!(copied, !index.is_multiple_of(7), "{index}");
            assert!(!copied || bytes[..] == there[index % 90..][..10], "{index}");
        }
        assert!(copy(0x3fff_ffff, &mut [Range { at: 0, into: &mut [0] }]).is_err(), "there is no such process");
    }
}
