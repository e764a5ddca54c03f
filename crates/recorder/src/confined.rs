//! Ends a recording before the process forbids itself what the recorder needs. It does so with a filter of system calls, which may
//! forbid the recorder's calls, or with `PR_SET_TSC` (also part of `SECCOMP_MODE_STRICT`), after which a read of the time-stamp counter
//! ends the thread. Without the counter no clock is left, because the C library's clocks read the same counter.

use super::process::{self, begin};
use super::thread::QUIET;
use super::{calls, config, tls};
use crate::undisturbed::undisturbed;

/// Ends the trace, for the rest of the process's life. Later calls are passed on to the allocator. The calling thread reads no clock any
/// more. Other threads that are inside a call write to private memory, as when the recorder is taken out.
///
/// The child of a `vfork` uses its parent's memory. If it confines itself before it becomes another program, the parent's trace goes on.
pub fn confined() {
    if process::present().is_some_and(|process| !process.is_own()) {
        return;
    }
    undisturbed(|| {
        if let Some(process) = process::present() {
            calls::read_last(process);
            process.confine();
        }
        config::turn_off();
        begin::detach();
    });
    tls::set(QUIET);
}
