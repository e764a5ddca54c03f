//! The buffer for mimalloc's statistics, and a lock that protects forks.
//!
//! mimalloc adds its statistics up under its own lock and has no handler for `fork`. A child that is forked while
//! another thread has that lock would wait for ever when it asks for statistics. So a fork waits for that thread.

use std::sync::atomic::{AtomicBool, Ordering};

use allocanary_sys::fork_lock::ForkLock;

/// Static, because the text has some 20 kB: too much for every thread's stack.
pub(super) static TEXT: ForkLock<[u8; 48 * 1024]> = ForkLock::new([0; 48 * 1024]);

/// Makes each fork wait for the holder of [`TEXT`], from the first call on. If two threads make the first call at once,
/// a fork may not wait yet when the second call returns.
pub(super) fn wait_at_forks() {
    static KNOWN: AtomicBool = AtomicBool::new(false);
    if !KNOWN.swap(true, Ordering::Relaxed) {
        // SAFETY: the handlers touch one atomic of a static, and allocate nothing. If there is no memory for the
        // registration, forks do not wait, as before.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    }
}

extern "C" fn before() {
    TEXT.begin();
}

extern "C" fn after() {
    // SAFETY: `before` took the lock, on the thread that forked.
    unsafe { TEXT.end() };
}
