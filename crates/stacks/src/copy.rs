//! Copies memory of this process. In: an address, which may be invalid. Out: the bytes there, up to the first unmapped
//! page. The kernel makes the copy, and refuses unmapped memory.

/// Bytes of the smallest page. What is copied lies in one, so that it is either all mapped or not.
pub(crate) const PAGE: u64 = 4096;

/// No address of a program is so large.
pub(crate) const ADDRESSES: u64 = if cfg!(target_arch = "aarch64") { 1 << 48 } else { 1 << 47 };

/// Copies at most a page of bytes from `address` on, and returns how many were copied. The range may cross the end of a
/// page. If the next page is not mapped, only the bytes before it are copied.
pub(crate) fn copy(address: u64, to: &mut [u8]) -> usize {
    let first = to.len().min((PAGE - address % PAGE) as usize);
    let part = |address: u64, length: usize| libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(address as usize),
        iov_len: length,
    };
    let parts = [part(address, first), part(address.wrapping_add(first as u64), to.len() - first)];
    // SAFETY: the thread's error number is restored. The kernel checks both ranges; the local one is our own buffer.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
        let count = if first < to.len() { 2 } else { 1 };
        let copied = libc::process_vm_readv(libc::getpid(), &local, 1, parts.as_ptr(), count, 0);
        *errno = before;
        usize::try_from(copied).unwrap_or(0).min(to.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_as_far_as_they_are_mapped() {
        // SAFETY: two pages of our own; the second is unmapped first.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), 8192, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            pages.cast::<u8>().add(4090).write_bytes(7, 12);
            let at = pages.expose_provenance() as u64 + 4090;
            let mut bytes = [1; 16];
            assert_eq!((copy(at, &mut bytes), bytes), (16, [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0]));
            libc::mprotect(pages.add(4096), 4096, libc::PROT_NONE);
            let mut bytes = [1; 16];
            assert_eq!((copy(at, &mut bytes), bytes[..6] == [7; 6]), (6, true));
            assert_eq!((copy(at + 6, &mut bytes), copy(0, &mut bytes), copy(u64::MAX - 3, &mut bytes)), (0, 0, 0));
            libc::munmap(pages, 8192);
        }
    }
}
