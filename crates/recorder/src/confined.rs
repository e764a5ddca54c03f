//! The end of a recording before the process forbids itself what the recorder needs: a filter of system calls that may not let its calls
//! pass, or a time-stamp counter that ends the thread (`PR_SET_TSC`, and `SECCOMP_MODE_STRICT`, which includes it). No other clock is
//! left then: the C library's reads the same counter.

use super::process::{self, begin};
use super::thread::QUIET;
use super::{calls, config, tls};
use crate::undisturbed::undisturbed;

/// Ends the trace, for the rest of the process's life. Later calls are passed on to the allocator. The caller's thread reads no clock any
/// more; other threads that are inside of a call write to private memory, as when the recorder is taken out.
///
/// The child of a `vfork` has its parent's memory: what it forbids itself before it becomes another program is not the parent's.
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
