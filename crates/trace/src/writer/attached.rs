//! A recorder that was put into a process that runs, and that is taken out again. In: what somebody outside asks for. Out: a trace from now
//! on, without the blocks from before.
//!
//! Each recording has a state of the process of its own, which is never unmapped: another thread may be inside of a call when the recorder
//! is taken out, and goes on with it. Such a call writes to private memory, which has the place of the file then. A thread notices in its
//! next call that another recording has begun, because its last stamp is too old for the short way, and begins its state again.

use super::process::begin;
use super::{calls, config, forks, real, stacks};
use crate::format::STAMP_TICKS;
use crate::writer::tls::ticks;
use crate::writer::undisturbed::undisturbed;

/// What somebody outside asks for.
pub struct Asked<'a> {
    /// The folder of the trace: an absolute path.
    pub folder: &'a [u8],
    /// The largest size of the trace in bytes.
    pub limit: u64,
    /// One block in this many is recorded.
    pub rate: u32,
    /// The stack of one allocation in this many is recorded; 0 for none.
    pub stacks: u32,
}

/// The library was opened: it records nothing until somebody outside asks. Looks up what stacks need.
pub fn opened() {
    config::wait();
    stacks::look_up();
}

/// Begins a trace. `real` are the addresses of the allocator's malloc, calloc, realloc, free and posix_memalign. The error is the system's
/// number: then nothing has begun. EALREADY: it records.
///
/// # Safety
///
/// One thread at a time, which is inside of no call of the recorder. The functions are those that the caller of a recorded function meant.
pub unsafe fn attach(asked: &Asked, real: [usize; 5]) -> Result<(), i32> {
    if !config::is_waiting() {
        return Err(libc::EALREADY);
    }
    real::set(real);
    // SAFETY: nothing is recorded, and the caller is the only one.
    let config =
        unsafe { config::set(asked.folder, asked.limit, asked.rate, asked.stacks) }.ok_or(libc::ENAMETOOLONG)?;
    forks::watch_own_forks();
    // Whoever was recorded before has a stamp that is too old by then.
    let begun = ticks();
    while ticks().wrapping_sub(begun) < 2 * STAMP_TICKS {
        std::hint::spin_loop();
    }
    begin::attach(config)?;
    config::record();
    Ok(())
}

/// Ends the trace. Calls that come later are passed on. Returns whether there was one.
///
/// # Safety
///
/// As for [`attach`].
pub unsafe fn detach() -> bool {
    undisturbed(|| {
        let Some(process) = begin::ready() else { return false };
        calls::read_last(process);
        config::wait();
        begin::detach();
        true
    })
}
