//! Counts the steps in which a thread is borrowed, for a test that ends this command after each of them. Outside of tests
//! nothing is counted.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static LEFT: AtomicU32 = AtomicU32::new(0);

/// From now on, this process ends itself by SIGKILL after this many steps. 0 means never.
pub fn end_after(steps: u32) {
    LEFT.store(steps, Relaxed);
}

/// How many of the steps given to [`end_after`] are left.
pub fn left() -> u32 {
    LEFT.load(Relaxed)
}

/// Counts one step.
pub(crate) fn step() {
    if LEFT.load(Relaxed) != 0 && LEFT.fetch_sub(1, Relaxed) == 1 {
        // SAFETY: a system call with two numbers.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
