//! The profile, for C. In: a mean distance, a file descriptor. Out: a code, and the call sites that hold the heap, in the format of pprof.

use std::ffi::c_int;

use allocanary::profile;

use crate::border::{AllocanaryCode, guard, problem, tuned};
use crate::descriptor::write_all;

/// Begins to sample the blocks of this library, for the life of the process. From now on, one byte in `mean` of the allocated bytes is
/// sampled on average. 524288 is usual, and 1024 is the minimum. Does nothing if the profile is on. `ALLOCANARY_PROFILE=512KiB` in the
/// environment turns it on before the first allocation.
///
/// Only blocks of `allocanary_calloc` and of Rust code are sampled. For C's own malloc start the program with LD_PRELOAD of `allocanary
/// preload profile`. `allocanary who PID` reads either.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_profile(mean: u64) -> AllocanaryCode {
    guard(|| tuned(profile::turn_on(mean)))
}

/// Ends sampling for good. Call it before this process gives itself a filter of system calls (seccomp) that may forbid `openat` of
/// `/proc/self/maps` or `process_vm_readv` of itself. `allocanary who PID` still reads the profile, but `allocanary_write_pprof` fails from
/// now on. If another thread is in that function, this call waits for it, perhaps for seconds.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_profile_before_filter() -> AllocanaryCode {
    guard(|| {
        profile::before_filter();
        AllocanaryCode::Ok
    })
}

/// Writes the profile to an open file, pipe or socket, compressed by gzip. A service can answer `GET /debug/pprof/heap` with it. `go tool
/// pprof` and others read this format. The call may take seconds, and longer while nobody reads, even if the descriptor is non-blocking
/// (O_NONBLOCK). The descriptor stays open.
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
