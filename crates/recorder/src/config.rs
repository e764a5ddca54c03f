//! The configuration of the recorder. In: `ALLOCANARY_RECORD` and related variables, read once. Out: one value for the
//! life of the process. Forks inherit this value, because a child's environment may differ.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use allocanary_sys::sys;

/// The default of `ALLOCANARY_RECORD_MAX`, in bytes.
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
    /// Whether the recorder was put into a running process: blocks from before are not in the trace.
    pub(super) is_attached: bool,
}

impl Config {
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
/// The recorder was put into a running process, and records nothing until the command requests it.
const WAITS: u32 = 3;

/// There is no state "being read". After a fork in such a state, the child would wait for a thread that it does not
/// have.
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
    is_attached: false,
};

/// The process that the command has requested to record, with all bits inverted; 0 for none. Its forks are not recorded. The number as it is
/// could stand between numbers that make a locked mutex with this owner of it. Then the command would borrow no thread to end the recording.
static ATTACHED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

/// Whether nothing is recorded for the rest of the process's life.
pub(super) fn is_off() -> bool {
    STATE.load(SeqCst) == OFF
}

/// Stops recording for the rest of the process's life.
pub(super) fn turn_off() {
    STATE.store(OFF, SeqCst);
}

/// Whether the recorder was put into a running process. Recordings may then begin and end several times.
pub(super) fn is_opened() -> bool {
    ATTACHED.load(SeqCst) != 0
}

/// Whether nothing is recorded until the command requests it.
pub(super) fn is_waiting() -> bool {
    STATE.load(SeqCst) == WAITS
}

/// Stops recording until the command requests it.
pub(super) fn wait() {
    STATE.store(WAITS, SeqCst);
}

/// Records this process from now on.
pub(super) fn record() {
    STATE.store(RECORD, SeqCst);
}

/// Stores the command's request.
///
/// # Safety
///
/// Only one thread at a time may call this, while nothing is recorded.
pub(super) unsafe fn set(folder: &[u8], limit: u64, rate: u32, stacks: u32) -> Option<&'static Config> {
    // SAFETY: the caller's promise.
    let config = unsafe { (&raw mut CONFIG).as_mut() }?;
    if folder.is_empty() || folder.len() >= config.folder.len() {
        return None;
    }
    config.folder[..folder.len()].copy_from_slice(folder);
    (config.length, config.others_length) = (folder.len(), 0);
    (config.limit, config.rate, config.stacks) = (limited(limit), rate.clamp(1, 1 << 20), stacks.min(1 << 20));
    (config.window, config.is_attached) = (0, true);
    // SAFETY: no argument.
    ATTACHED.store(!unsafe { libc::getpid() } as u32, SeqCst);
    Some(config)
}

/// The largest size of a trace, in whole pages.
fn limited(bytes: u64) -> u64 {
    bytes.clamp(64 << 10, 1 << 46) & !4095
}

/// Whether the environment asks for a recording. False before the C library knows the environment.
pub(super) fn is_asked() -> bool {
    // SAFETY: reads a pointer that the C library sets before it runs constructors.
    if unsafe { environ.is_null() } {
        return false;
    }
    match STATE.load(SeqCst) {
        UNREAD => {
            // SAFETY: the text is not used after this line.
            let asked = unsafe { sys::variable(c"ALLOCANARY_RECORD") }.is_some_and(|folder| !folder.is_empty());
            if !asked {
                turn_off();
            }
            asked
        }
        RECORD => {
            let attached = ATTACHED.load(SeqCst);
            // SAFETY: no argument.
            let is_asked = attached == 0 || attached == !unsafe { libc::getpid() } as u32;
            if !is_asked {
                turn_off(); // this process is the child of a fork
            }
            is_asked
        }
        _ => false,
    }
}

/// The configuration. The first call reads it from the environment. `None` if nothing is to be recorded.
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
    config.limit = limited(number(c"ALLOCANARY_RECORD_MAX").unwrap_or(DEFAULT_LIMIT));
    config.rate = number(c"ALLOCANARY_RECORD_SAMPLE").unwrap_or(1).clamp(1, 1 << 20) as u32;
    config.window = number(c"ALLOCANARY_RECORD_WINDOW").unwrap_or(0).min(1 << 32) * 1_000_000;
    config.stacks = number(c"ALLOCANARY_RECORD_STACK_SAMPLE").unwrap_or(0).min(1 << 20) as u32;
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
