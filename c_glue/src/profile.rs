//! The profile, for C. In: a mean distance, a file descriptor. Out: a code; which call sites hold the heap, in the format of pprof.

use std::ffi::c_int;

use allocanary::profile;

use crate::border::{AllocanaryCode, guard, problem, tuned};
use crate::descriptor::write_all;

/// Begins to sample the blocks of this library, for the life of the process: one byte in `mean` bytes that are allocated from now on, on
/// average. 524288 is usual; it may be from 1024 on. Does nothing if the profile is on. `ALLOCANARY_PROFILE=512KiB` in the environment
/// turns it on before the first allocation.
///
/// Only blocks of `allocanary_calloc` and of Rust code are sampled. For C's own malloc start the program with LD_PRELOAD of `allocanary
/// preload profile`. `allocanary who PID` reads either.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_profile(mean: u64) -> AllocanaryCode {
    guard(|| tuned(profile::turn_on(mean)))
}

/// No block is sampled from now on: call it before this process gives itself a filter of system calls (seccomp) that may not allow `openat`
/// of `/proc/self/maps` and `process_vm_readv` of itself. `allocanary who PID` still reads the profile. It may wait for seconds for
/// `allocanary_write_pprof` of another thread, which is refused from now on.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_profile_before_filter() -> AllocanaryCode {
    guard(|| {
        profile::before_filter();
        AllocanaryCode::Ok
    })
}

/// Writes the profile to an open file, pipe or socket, compressed by gzip: what a service answers to `GET /debug/pprof/heap`. `go tool
/// pprof` and others read that. It may take up to seconds, and longer while nobody reads, also if the descriptor does not wait (O_NONBLOCK).
/// The descriptor stays open.
///
/// The code is `ALLOCANARY_CODE_REFUSED` if the profile is off, if the descriptor cannot be written to, or if nobody has read for 30
/// seconds. A pipe or a socket that nobody reads any more is such an error, and raises no SIGPIPE.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_write_pprof(descriptor: c_int) -> AllocanaryCode {
    guard(|| {
        if descriptor < 0 {
            return problem((AllocanaryCode::Argument, format_args!("descriptor is {descriptor}, wanted an open one")));
        }
        let bytes = match profile::pprof() {
            Ok(bytes) => bytes,
            Err(error) => return problem((AllocanaryCode::Refused, format_args!("{error}"))),
        };
        match write_all(descriptor, &bytes) {
            Ok(()) => AllocanaryCode::Ok,
            Err(error) => problem((AllocanaryCode::Refused, format_args!("descriptor {descriptor}: {error}"))),
        }
    })
}
