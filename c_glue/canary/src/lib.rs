//! The canary for a main function in C, as its author linked it in 2018. In: `argc` and `argv`. Out: an exit code.

use std::ffi::{CStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(feature = "system")]
allocanary::install!(system, arena_max = 1);
#[cfg(feature = "jemalloc")]
allocanary::install!(jemalloc, narenas = per_cpu(1));
#[cfg(feature = "mimalloc")]
allocanary::install!(mimalloc);

const _: () = assert!(
    cfg!(feature = "system") as u8 + cfg!(feature = "jemalloc") as u8 + cfg!(feature = "mimalloc") as u8 == 1,
    "turn on one of the features system, jemalloc, mimalloc"
);

/// The exit code after a panic of the canary. The panic must not cross into C.
const PANIC: c_int = 101;

/// Runs the canary until SIGTERM or SIGINT. Returns its exit code: 0, or 1 if the system refuses something, 2 if the
/// command line is invalid, 101 after a panic.
///
/// # Safety
/// `argv` has `argc` pointers to texts that end with a zero byte and do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kube_canary(argc: c_int, argv: *const *const c_char) -> c_int {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let count = if argv.is_null() { 0 } else { usize::try_from(argc).unwrap_or(0) };
        let arguments = (0..count).map(|at| {
            // SAFETY: the caller promises that there are `argc` texts.
            let text = unsafe { CStr::from_ptr(*argv.add(at)) };
            OsString::from_vec(text.to_bytes().to_vec())
        });
        c_int::from(kube_canary::command(arguments))
    }));
    ended.unwrap_or(PANIC)
}
