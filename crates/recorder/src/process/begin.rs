//! Begins a process's file, at the first call.

use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;

use super::file::{Scratch, open_file, say_why};
use super::{PROCESS, Process};
use crate::config::{self, Config};
use crate::memory::map_wiped;
use crate::stacks;
use crate::undisturbed::undisturbed;

/// The process's state. The first call begins the process's file. `None` if nothing is recorded.
pub(crate) fn ready() -> Option<&'static Process> {
    let process = PROCESS.load(SeqCst);
    if !process.is_null() {
        // SAFETY: the page is never unmapped, and zeros are a valid state.
        let process = unsafe { &*process };
        match process.state.load(SeqCst) {
            2 => return Some(process),
            0 => {}
            _ => return None,
        }
    }
    begin(config::read)
}

/// Begins the process's file. `read` reads the configuration.
#[cold]
pub(crate) fn begin(read: fn(&mut Config) -> bool) -> Option<&'static Process> {
    if !config::is_asked() {
        return None;
    }
    undisturbed(|| begin_file(read))
}

/// Begins a file for a process that has run without one. The error is the system's error number.
pub(crate) fn attach(config: &'static Config) -> Result<(), i32> {
    undisturbed(|| {
        let page: *mut Process = map_wiped(size_of::<Process>().next_multiple_of(4096)).cast();
        // SAFETY: the page is never unmapped, and zeros are a valid state.
        let process = unsafe { page.as_ref() }.ok_or(libc::ENOMEM)?;
        Scratch::with(|scratch| open_file(process, config, scratch))?;
        process.state.store(2, SeqCst);
        PROCESS.store(page, SeqCst);
        Ok(())
    })
}

/// Detaches the process from its file. A call that another thread has begun continues with the old state, which is not
/// freed.
pub(crate) fn detach() -> Option<&'static Process> {
    // SAFETY: as above.
    let process = unsafe { PROCESS.swap(null_mut(), SeqCst).as_ref() };
    process.inspect(|process| {
        process.leave();
        stacks::leave(process);
    })
}

fn begin_file(read: fn(&mut Config) -> bool) -> Option<&'static Process> {
    let mut page = PROCESS.load(SeqCst);
    if page.is_null() {
        let new: *mut Process = map_wiped(size_of::<Process>().next_multiple_of(4096)).cast();
        if new.is_null() {
            config::turn_off(); // the kernel cannot wipe pages at a fork, or there is no memory
            return None;
        }
        page = match PROCESS.compare_exchange(null_mut(), new, SeqCst, SeqCst) {
            Ok(_) => new,
            Err(other) => other,
        };
    }
    // SAFETY: as in `ready`.
    let process = unsafe { &*page };
    if process.state.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        // Another thread begins the file, so this call is not recorded.
        return (process.state.load(SeqCst) == 2).then_some(process);
    }
    // SAFETY: the exchange above made this thread the only one.
    let begun = unsafe { config::config(read) }.is_some_and(|config| {
        let begun = Scratch::with(|scratch| {
            open_file(process, config, scratch).inspect_err(|error| say_why(config, *error, scratch))
        });
        if begun.is_err() {
            config::turn_off();
        }
        begun.is_ok()
    });
    process.state.store(if begun { 2 } else { 3 }, SeqCst);
    begun.then_some(process)
}
