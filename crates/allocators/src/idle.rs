//! Returning memory before a wait: the policy, a thread's record of its last time, and turns for shared work. In: an
//! `install!`, the environment, counts, a clock. Out: whether it is due. Calls no allocator.
//!
//! The calls that a program makes are [`tuning::thread_idle`](crate::tuning::thread_idle) and
//! [`tuning::wait`](crate::tuning::wait).

mod policy;
mod stack;
mod thread;
mod turns;

use std::time::Duration;

pub use policy::Policy;
pub(crate) use policy::{boot, every, problems};
pub use stack::give_back as give_back_stack;
pub use thread::Thread;
pub use turns::Turns;

/// The longest wait that [`wait_twice`] requests: small enough for every clock.
const LONG: Duration = Duration::from_secs(3600);

/// Waits for a `short` time, and then, if nothing came, until something comes; calls `give_back` between the two.
/// `wait_for` waits for at most the given time and returns what came.
pub fn wait_twice<T>(short: Duration, give_back: impl FnOnce(), mut wait_for: impl FnMut(Duration) -> Option<T>) -> T {
    if let Some(came) = wait_for(short) {
        return came;
    }
    give_back();
    loop {
        if let Some(came) = wait_for(LONG) {
            return came;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_gives_back_once_and_only_where_nothing_came_soon() {
        for comes_at in 1..5 {
            let (mut waits, mut given) = (Vec::new(), 0);
            let short = Duration::from_millis(5);
            let came = wait_twice(
                short,
                || given += 1,
                |timeout| {
                    waits.push(timeout);
                    (waits.len() == comes_at).then_some(comes_at)
                },
            );
            assert_eq!((came, given), (comes_at, usize::from(comes_at > 1)));
            assert!(waits[0] == short && waits[1..].iter().all(|timeout| *timeout == LONG));
        }
    }
}
