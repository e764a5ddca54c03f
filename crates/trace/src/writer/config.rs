//! The configuration of the recorder. In: `ALLOCANARY_RECORD` and related variables, read once. Out: one value for the
//! process's life. Its forks inherit this value, because a child's environment may differ.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use allocanary_kernel::sys;

/// Default of `ALLOCANARY_RECORD_MAX`, in bytes.
const DEFAULT_LIMIT: u64 = 1 << 30;

/// What to record, and where.
pub(super) struct Config {
    folder: [u8; 3072],
    length: usize,
    others: [u8; 3072],
    others_length: usize,
    /// The maximum length of a trace, in bytes.
    pub(super) limit: u64,
    /// One block in this many is recorded.
    pub(super) rate: u32,
    /// The length of the window in nanoseconds; 0 for the whole run.
    pub(super) window: u64,
    /// The stack of one allocation in this many is recorded; 0 for none.
    pub(super) stacks: u32,
}

impl Config {
    /// The folder of the traces.
    pub(super) fn folder(&self) -> &[u8] {
        &self.folder[..self.length]
    }

    /// The folder for processes that may not write to the first one; empty if there is none.
    pub(super) fn others(&self) -> &[u8] {
        &self.others[..self.others_length]
    }
}

const UNREAD: u32 = 0;
const RECORD: u32 = 1;
const OFF: u32 = 2;

/// There is no state for "is being read": after a fork in this state the child would wait for a thread that does not
/// exist there.
static STATE: AtomicU32 = AtomicU32::new(UNREAD);
/// Written before `STATE` is `RECORD`, by the one thread that begins the process's file.
static mut CONFIG: Config = Config {
    folder: [0; 3072],
    length: 0,
    others: [0; 3072],
    others_length: 0,
    limit: DEFAULT_LIMIT,
    rate: 1,
    window: 0,
    stacks: 0,
};

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

/// Whether nothing is recorded, for good.
pub(super) fn is_off() -> bool {
    STATE.load(SeqCst) == OFF
}

/// Records nothing from now on.
pub(super) fn turn_off() {
    STATE.store(OFF, SeqCst);
}

/// Whether the environment asks for a recording. False before the C library knows the environment.
pub(super) fn is_asked() -> bool {
    // SAFETY: reads a pointer that the C library sets before it runs constructors.
    if unsafe { environ.is_null() } {
        return false;
    }
    match STATE.load(SeqCst) {
        UNREAD => {
            // SAFETY: the text is used up here.
            let asked = unsafe { sys::variable(c"ALLOCANARY_RECORD") }.is_some_and(|folder| !folder.is_empty());
            if !asked {
                turn_off();
            }
            asked
        }
        state => state == RECORD,
    }
}

/// The configuration; read from the environment at the first call. `None` if nothing is to be recorded.
///
/// # Safety
///
/// Only one thread of the process may call this at a time. A child of a fork is another process.
pub(super) unsafe fn config(read: fn(&mut Config) -> bool) -> Option<&'static Config> {
    if STATE.load(SeqCst) == UNREAD {
        // SAFETY: the caller's promise, and nobody reads before `RECORD`.
        let asked = unsafe { (&raw mut CONFIG).as_mut() }.is_some_and(read);
        STATE.store(if asked { RECORD } else { OFF }, SeqCst);
    }
    if is_off() {
        return None;
    }
    // SAFETY: nobody writes any more.
    unsafe { (&raw const CONFIG).as_ref() }
}

/// Reads the environment, and returns whether it asks for a recording.
pub(super) fn read(config: &mut Config) -> bool {
    // SAFETY: the values are used only in this function, before the program can change its environment.
    let variable = |name: &CStr| unsafe { sys::variable(name) };
    let folder = variable(c"ALLOCANARY_RECORD").unwrap_or_default();
    let number = |name| variable(name).and_then(sys::first_number);
    config.limit = number(c"ALLOCANARY_RECORD_MAX").unwrap_or(DEFAULT_LIMIT).clamp(64 << 10, 1 << 46) & !4095;
    config.rate = number(c"ALLOCANARY_RECORD_RATE").unwrap_or(1).clamp(1, 1 << 20) as u32;
    config.window = number(c"ALLOCANARY_RECORD_WINDOW").unwrap_or(0).min(1 << 32) * 1_000_000;
    config.stacks = number(c"ALLOCANARY_RECORD_STACKS").unwrap_or(0).min(1 << 20) as u32;
    let fits = !folder.is_empty() && folder.len() < config.folder.len();
    if fits {
        config.folder[..folder.len()].copy_from_slice(folder);
        config.length = folder.len();
    }
    let others = variable(c"ALLOCANARY_RECORD_OTHERS").unwrap_or_default();
    if others.len() < config.others.len() {
        config.others[..others.len()].copy_from_slice(others);
        config.others_length = others.len();
    }
    fits
}
