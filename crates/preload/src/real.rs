//! The function that a preload replaces. In: its name. Out: the next library's function of that name.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the libraries after this one, looked up at its first call.
pub struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    /// A function of this name, not yet looked up.
    pub const fn new(name: &'static CStr) -> Self {
        Real { name, found: AtomicPtr::new(null_mut()) }
    }

    /// The function. `None` if no other library has it.
    ///
    /// # Safety
    ///
    /// `F` is the type of the function, a pointer.
    #[inline]
    pub unsafe fn function<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            found = self.look();
            if found.is_null() {
                return None;
            }
        }
        // SAFETY: not null, and the caller promises the type.
        Some(unsafe { std::mem::transmute_copy(&found) })
    }

    /// The function is inline, so that its code is next to that of the constructor: see [`start`](crate::start::start).
    #[cold]
    #[inline]
    fn look(&self) -> *mut c_void {
        // SAFETY: the name ends in NUL. The loader's lock is not the allocator's.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}
