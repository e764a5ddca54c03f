//! Lets threads sleep until something changes. In: a thread that waits for a change, and a thread that makes it. Out: the first thread
//! sleeps, and the second one wakes it.
//!
//! This is an event count. A thread that waits announces this, checks the condition again, and sleeps. A thread that has changed something
//! checks whether a thread waits. This check is one load without a barrier, because the announcement has a barrier for all threads of the
//! process (membarrier). The check must be fast: an operation of a replay takes some nanoseconds, and threads seldom wait for it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};
use std::time::Duration;

use crate::mapped::Zeroed;

/// The bit that is set while a thread waits.
const WAITED_FOR: u32 = 1;
/// The longest sleep if the kernel has no barrier for all threads. The other thread may then have missed the announcement.
const UNSURE: Duration = Duration::from_millis(1);

/// An event count. The lowest bit is 1 while a thread waits, and the bits above are the number of wakes.
pub(crate) struct EventCount(AtomicU32);

// SAFETY: an integer.
unsafe impl Zeroed for EventCount {}

/// The announcement of a wait: the value that the event count had, and whether all threads have passed a barrier since.
pub(crate) struct Announced {
    seen: u32,
    is_sure: bool,
}

impl EventCount {
    /// Announces that this thread is going to wait. It must then check its condition again.
    pub(crate) fn announce(&self) -> Announced {
        let seen = self.0.fetch_or(WAITED_FOR, SeqCst) | WAITED_FOR;
        Announced { seen, is_sure: membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) }
    }

    /// Sleeps until a [`notify`](Self::notify) after the announcement, for at most `limit`. It may also return earlier for no reason.
    pub(crate) fn wait(&self, announced: Announced, limit: Option<Duration>) {
        let limit = if announced.is_sure { limit } else { Some(limit.map_or(UNSURE, |limit| limit.min(UNSURE))) };
        let time = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the kernel reads the word and the time, which outlive the call.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), WAIT, announced.seen, time, 0_usize, 0) };
    }

    /// Wakes all waiting threads. The caller must have made the change before.
    #[inline(always)]
    pub(crate) fn notify(&self) {
        compiler_fence(SeqCst);
        if self.0.load(Relaxed) & WAITED_FOR != 0 {
            self.wake();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        let seen = self.0.load(SeqCst) | WAITED_FOR;
        // If another thread changes the count first, that thread wakes the waiting threads.
        if self.0.compare_exchange(seen, seen.wrapping_add(1), SeqCst, SeqCst).is_ok() {
            // SAFETY: wakes threads that wait for this word.
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), WAKE, i32::MAX, 0_usize, 0_usize, 0) };
        }
    }

    /// How often waiting threads were woken.
    #[cfg(test)]
    pub(crate) fn wakes(&self) -> u32 {
        self.0.load(SeqCst) >> 1
    }
}

const WAIT: libc::c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;

/// Registers the process for the barrier. On a kernel without this barrier, each announcement notices that the barrier fails.
pub(crate) fn register() {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: a barrier changes no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Two threads take turns. Each must see the other's change, and must be woken at most once for each turn.
    #[test]
    fn no_change_is_missed_and_nobody_is_woken_for_nothing() {
        const TURNS: u64 = 20_000;
        register();
        let (counts, turn) = ([0, 1].map(|_| EventCount(AtomicU32::new(0))), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for mine in 0..2_u64 {
                let (counts, turn) = (&counts, &turn);
                scope.spawn(move || {
                    for at in (mine..TURNS).step_by(2) {
                        while turn.load(SeqCst) != at {
                            let announced = counts[mine as usize].announce();
                            if turn.load(SeqCst) == at {
                                break;
                            }
                            counts[mine as usize].wait(announced, None);
                        }
                        turn.store(at + 1, std::sync::atomic::Ordering::Release);
                        counts[1 - mine as usize].notify();
                    }
                });
            }
        });
        assert_eq!(turn.load(SeqCst), TURNS);
        assert!(counts.iter().all(|count| u64::from(count.wakes()) <= TURNS / 2));
    }

    #[test]
    fn a_wait_ends_at_its_limit_and_a_change_before_it_is_no_wait() {
        register();
        let count = EventCount(AtomicU32::new(0));
        count.wait(count.announce(), Some(Duration::from_millis(1)));
        let announced = count.announce();
        count.notify();
        count.wait(announced, None);
        assert_eq!(count.wakes(), 1);
    }
}
