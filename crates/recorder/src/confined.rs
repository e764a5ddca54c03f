//! Ends a recording before the process forbids itself what the recorder needs. This is a filter of system calls that may forbid the
//! recorder's calls, or a time-stamp counter that ends the thread (`PR_SET_TSC`, and `SECCOMP_MODE_STRICT`, which includes it). Without the
//! counter no clock is left, because the C library's clocks read the same counter.

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
