//! Hides the user's variables from this command's own jemalloc. In: the environment, before jemalloc reads it. Out: the
//! same environment in `main`.
//!
//! With `abort_conf:true` and a mistake in the same variable, jemalloc ends a program before its first line. But the
//! command must run with such a variable, because `doctor` explains it, and cells get it. So the variable is hidden
//! from the command's own jemalloc. A link in /etc cannot be hidden.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

const NAMES: [&[u8]; 3] = [b"JE_MALLOC_CONF=", b"MALLOC_CONF=", b"_RJEM_MALLOC_CONF="];

/// The prefix of a hidden variable's name.
const HIDDEN: c_char = b'#' as c_char;

/// The hidden variables, each with its full text.
static TEXTS: [AtomicPtr<c_char>; NAMES.len()] = [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

unsafe extern "C" {
    static environ: *const *mut c_char;
}

/// Runs before the hook of `install!` and before jemalloc's constructor, and allocates nothing.
extern "C" fn hide() {
    // SAFETY: the C library has set it up: a list that ends in null, of texts that end in NUL and are in this process's
    // own writable memory. There is no other thread yet.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            let text = *next;
            next = next.add(1);
            let bytes = CStr::from_ptr(text).to_bytes();
            let Some(at) = NAMES.iter().position(|name| bytes.starts_with(name)) else { continue };
            if bytes.windows(10).any(|part| part == b"abort_conf") {
                TEXTS[at].store(text, Ordering::Relaxed);
                *text = HIDDEN;
            }
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array.00080")]
static HIDE: extern "C" fn() = hide;

/// Restores the hidden variables. `main` calls this first, after jemalloc has read its configuration.
pub fn show() {
    for (text, name) in TEXTS.iter().zip(NAMES) {
        let text = text.swap(std::ptr::null_mut(), Ordering::Relaxed);
        if !text.is_null() {
            // SAFETY: `hide` found it, and no variable has been changed since: this is the first thing in `main`.
            unsafe { *text = name[0] as c_char };
        }
    }
}
