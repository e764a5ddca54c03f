//! Lets one thread at a time look up names. In: a thread that wants to. Out: its turn; none in a process that can never get one.
//!
//! The crate backtrace has a lock. If a process forks while a thread has this lock, the child would wait for it for ever.

use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::time::Duration;

/// The process of the thread whose turn it is; 0 if nobody has the turn. In the child of a fork, this may be its parent.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// A turn, which ends when this is dropped.
pub(super) struct Turn;

impl Turn {
    /// Waits for a turn. `None` in the child of a fork that happened during another thread's turn.
    pub(super) fn wait() -> Option<Turn> {
        let own = std::process::id();
        loop {
            match PROCESS.compare_exchange(0, own, AcqRel, Acquire) {
                Ok(_) => return Some(Turn),
                // To look up names takes from milliseconds to seconds, and few threads wait at once.
                Err(other) if other == own => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        PROCESS.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_a_fork_that_has_interrupted_a_turn_does_not_wait_for_it() {
        let turn = Turn::wait();
        // SAFETY: the child only looks, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_refused = Turn::wait().is_none();
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_refused)) };
        }
        drop(turn);
        let mut status = 0;
        // SAFETY: waits for our child.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
        assert!(Turn::wait().is_some(), "the next one has it");
    }
}
