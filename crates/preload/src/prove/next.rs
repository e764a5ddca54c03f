//! Finds functions of the libraries after this one. In: a name. Out: an address.

use std::ffi::{CStr, c_void};

/// The address of the function with this name in the libraries after this one; null if none has it.
pub(super) fn next(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends in NUL. The loader's lock is not the allocator's.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}
