//! Waits of a program that cannot be changed, for the setting `thread_idle`. In: the C library's waiting functions. Out: the same
//! answers. The unused memory of a waiting thread goes back to the system.
//!
//! Without the setting, each function here calls the next library's function. With `thread_idle=100ms`:
//!
//! - [`fds`] (epoll_wait, epoll_pwait, poll, ppoll, select, pselect), [`sleeps`] (nanosleep, clock_nanosleep) and [`counters`] (futex,
//!   sem_wait and similar functions) wait twice. They wait for 100 ms. If nothing came, they give the thread's unused memory back, and
//!   wait for the rest of the time. A thread that gets work within 100 ms pays nothing.
//! - [`locked`] (condition variables) and accept cannot wait twice: a signal to a condition variable between the two waits would be
//!   lost. They give memory back before they wait, at most once in 100 ms.
//!
//! Signals are blocked between the two waits. The second wait then reports a signal that came.

pub mod counters;
pub mod fds;
pub mod locked;
mod reals;
pub mod sleeps;
mod split;
mod times;

pub(crate) use split::turn_on;

/// Finds the next library's functions. A signal handler may be the first to call one, and must not look it up itself.
#[inline]
pub(crate) fn find() {
    fds::REAL.find();
    sleeps::REAL.find();
    counters::REAL.find();
    locked::REAL.find();
}
