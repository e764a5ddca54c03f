//! A page that a fork does not copy: parent and child share what is in it.

use std::ops::Deref;
use std::ptr::{NonNull, null_mut};

/// A value in such a page.
pub(super) struct SharedPage<T>(NonNull<T>);

// SAFETY: the page is this value's alone until it is dropped, and `new` wants what several threads and processes may use.
unsafe impl<T: Sync> Send for SharedPage<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for SharedPage<T> {}

impl<T: Sync> SharedPage<T> {
    /// Maps the page, full of zeros.
    ///
    /// # Safety
    ///
    /// `T` has atomics alone, since another process may change it at any time, and all-zero bytes are a value of it.
    pub(super) unsafe fn new() -> std::io::Result<SharedPage<T>> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: maps a new page, which nothing else knows.
        let page = unsafe { libc::mmap(null_mut(), size_of::<T>(), access, flags, -1, 0) };
        match NonNull::new(page.cast::<T>()) {
            Some(page) if page.as_ptr().cast() != libc::MAP_FAILED => Ok(SharedPage(page)),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

impl<T> Deref for SharedPage<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the page is aligned, has a value by the promise to `new`, and stays until this value is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for SharedPage<T> {
    fn drop(&mut self) {
        // SAFETY: the page was mapped by `new` with this length, and nobody has a reference to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<T>()) };
    }
}
