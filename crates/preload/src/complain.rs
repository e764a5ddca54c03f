//! A complaint about a variable. In: the variable, and what is wrong with it. Out: one line on standard error.

use std::ffi::CStr;

use crate::raw;

/// Writes one line on standard error: a variable, what is wrong with it, and what happens now.
pub fn complain(name: &CStr, found: &[u8], wanted: &str) {
    let parts = [b"allocanary: ", name.to_bytes(), b": `", found, b"`: ", wanted.as_bytes(), b": the program runs without it\n"];
    for part in parts {
        raw::complain(part);
    }
}
