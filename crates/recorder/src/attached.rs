//! A recorder that the command `record --attach` puts into a running process and takes out again. In: the command's
//! request. Out: a trace from now on, without the blocks from before.
//!
//! Each recording has its own state of the process, which is never unmapped: when the recorder is taken out, another
//! thread may be inside a call, and goes on with this state. Private memory has replaced the file by then, so the call
//! writes to this memory. When the next recording has begun, the thread's last stamp is too old for the short path. So
//! its next call takes the long path, finds the new recording, and begins the thread's state again.

use super::process::begin;
use super::{calls, config, forks, real, stacks};
use crate::tls::ticks;
use crate::undisturbed::undisturbed;
use allocanary_trace::format::STAMP_TICKS;

/// The command's request.
pub struct AttachedConfig<'a> {
    /// The folder of the trace: an absolute path.
    pub folder: &'a [u8],
    /// The largest size of the trace in bytes.
    pub limit: u64,
    /// One block in this many is recorded.
    pub rate: u32,
    /// The stack of one allocation in this many is recorded; 0 for none.
    pub stacks: u32,
}

/// Called when the library is opened. It looks up what stacks need, and records nothing until the command requests it.
pub fn opened() {
    config::wait();
    stacks::look_up();
}

/// Begins a trace. `real` are the addresses of the allocator's malloc, calloc, realloc, free and posix_memalign. If it
/// fails, nothing has begun. The error is the system's error number: EALREADY if a recording runs.
///
/// # Safety
///
/// Only one thread at a time may call this, and it must be outside all calls of the recorder. `real` must be the
/// functions that the program's calls would reach without the recorder.
pub unsafe fn attach(asked: &AttachedConfig, real: [usize; 5]) -> Result<(), i32> {
    if !config::is_waiting() {
        return Err(libc::EALREADY);
    }
    real::set(real);
    // SAFETY: nothing is recorded, and by the caller's promise no other thread is here.
    let config =
        unsafe { config::set(asked.folder, asked.limit, asked.rate, asked.stacks) }.ok_or(libc::ENAMETOOLONG)?;
    forks::watch_own_forks();
    // Wait until the last stamps of an earlier recording are too old for the short path.
    let begun = ticks();
    while ticks().wrapping_sub(begun) < 2 * STAMP_TICKS {
        std::hint::spin_loop();
    }
    begin::attach(config)?;
    config::record();
    Ok(())
}

/// Ends the trace. Later calls are passed on to the allocator. Returns whether there was a trace.
///
/// # Safety
///
/// The same as for [`attach`].
pub unsafe fn detach() -> bool {
    undisturbed(|| {
        let Some(process) = begin::ready() else { return false };
        calls::read_last(process);
        config::wait();
        begin::detach();
        true
    })
}
