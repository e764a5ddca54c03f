//! The end of the process. In: `_exit`. Out: the last line of the proof, if a proof is requested.

use std::ffi::c_int;

use crate::{proof, raw, sandbox};

/// C's `_exit`. A signal handler may call it while the allocator is locked. So the line has no counters.
pub fn exit(code: c_int) -> ! {
    if !sandbox::is_entered() {
        proof::at_exit(false);
    }
    raw::exit(code)
}
