//! Where mimalloc writes its statistics, and why no fork falls into that. In: nothing. Out: a buffer behind a lock.
//!
//! mimalloc adds its statistics up under a lock of its own and has no handler for `fork`: a child that is forked while another
//! thread is in there waits for ever when it asks for them. So a fork waits for the thread that is.

use std::sync::atomic::{AtomicBool, Ordering};

use allocanary_kernel::fork_lock::ForkLock;

/// Static, since the text is some 20 kB: too much to grow every thread's stack by.
pub(super) static TEXT: ForkLock<[u8; 48 * 1024]> = ForkLock::new([0; 48 * 1024]);

/// From the first call on, forks wait for whoever has [`TEXT`]. A call that comes second while the first is under way may see
/// a fork that does not wait yet.
pub(super) fn wait_at_forks() {
    static KNOWN: AtomicBool = AtomicBool::new(false);
    if !KNOWN.swap(true, Ordering::Relaxed) {
        // SAFETY: the handlers touch one atomic of a static, and allocate nothing. Without memory for the registration it is
        // as before.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    }
}

extern "C" fn before() {
    TEXT.begin();
}

extern "C" fn after() {
    // SAFETY: `before` began it, on the thread that forked.
    unsafe { TEXT.end() };
}
