//! The constructor of a preload, the first of the process. In: the process's variables. Out: an allocator with its
//! settings, before the first allocation, and the first line of the proof.

use std::ffi::{CStr, c_char};

use allocanary_allocators::Allocator;
use allocanary_allocators::__private::{Conf, Request};
use allocanary_allocators::setting::Setting;
use allocanary_kernel::sys;

use crate::{cores, proof, raw};

/// The path of the loader of programs, for the file's `.interp`.
#[cfg(target_arch = "x86_64")]
pub const LOADER: &[u8; 28] = b"/lib64/ld-linux-x86-64.so.2\0";
/// The path of the loader of programs, for the file's `.interp`.
#[cfg(target_arch = "aarch64")]
pub const LOADER: &[u8; 27] = b"/lib/ld-linux-aarch64.so.1\0";

/// A preload.
pub struct This {
    /// Its allocator.
    pub allocator: &'static dyn Allocator,
    /// The settings that it takes from code.
    pub table: &'static [Setting],
    /// The symbol from which jemalloc reads its configuration.
    pub conf: Option<&'static Conf>,
    /// The sources that it was built from.
    pub build: &'static str,
}

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Runs before any code of the program or of another library, and allocates nothing.
///
/// # Safety
///
/// `variables` are the process's, and this is its first constructor.
#[inline]
pub unsafe fn start(this: &'static This, variables: *mut *mut c_char) {
    // The C library's own constructor has not run: allocators, and we, read the variables where it will put them.
    // SAFETY: there is no other thread yet.
    unsafe {
        if environ.is_null() {
            environ = variables;
        }
    }
    // SAFETY: no other thread changes the environment yet.
    let variable = |name: &CStr| unsafe { sys::variable(name) };
    if let Some(text) = variable(cores::VARIABLE)
        && let Err(wanted) = cores::set(text)
    {
        complain(cores::VARIABLE, text, wanted);
    }
    this.allocator.boot(&Request { settings: &[], conf: this.conf });
    if let Some(path) = variable(proof::VARIABLE) {
        proof::at_load(this, path);
    }
}

/// One line on standard error: a variable, what is wrong with it, and what is done.
fn complain(name: &CStr, found: &[u8], wanted: &str) {
    for text in [b"allocanary: ".as_slice(), name.to_bytes(), b": ", wanted.as_bytes(), b", found `", found] {
        raw::complain(text);
    }
    raw::complain(b"`: the program runs without it\n");
}
