//! Returning memory before a wait: the policy, a thread's record of its last return, and turns for shared work. In: an `install!`, the
//! environment, counts, a clock. Out: whether a return is due. It calls no allocator.
//!
//! The calls that a program makes are [`tuning::thread_idle`](crate::tuning::thread_idle) and
//! [`tuning::wait`](crate::tuning::wait).

mod policy;
mod stack;
mod thread;
mod turns;
mod uncached;

use std::time::Duration;

pub use policy::Policy;
pub(crate) use policy::{boot, every, problems};
pub use stack::give_back as give_back_stack;
pub use thread::IdleThread;
pub use turns::Turns;
pub use uncached::Uncached;

/// The longest wait that [`wait_in_steps`] requests. Every clock can express it.
const LONG: Duration = Duration::from_secs(3600);

/// The second wait takes this many times as long as the first.
const AGAIN: u32 = 4;

/// Waits for a `short` time, then for a longer time, then until something comes. After each of the first two waits it calls `give_back`,
/// whose argument says whether this is the last call, and keeps the result until something comes. `wait_for` waits for at most the given
/// time and returns what came.
///
/// The second call gives back what other threads have freed for this one since the first. For example, if many threads begin to wait
/// at the same time, each returns cached blocks to the arenas of other threads, after those arenas were purged.
pub fn wait_in_steps<T, R>(
    short: Duration,
    mut give_back: impl FnMut(bool) -> R,
    mut wait_for: impl FnMut(Duration) -> Option<T>,
) -> T {
    let mut _given = None;
    for (time, last) in [(short, false), (short.saturating_mul(AGAIN), true)] {
        if let Some(came) = wait_for(time) {
            return came;
        }
        _given = Some(give_back(last));
    }
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
    fn who_waits_gives_back_twice_and_only_where_nothing_came_soon() {
        for comes_at in 1..5 {
            let (mut waits, mut given) = (Vec::new(), Vec::new());
            let short = Duration::from_millis(5);
            let came = wait_in_steps(
                short,
                |last| given.push(last),
                |timeout| {
                    waits.push(timeout);
                    (waits.len() == comes_at).then_some(comes_at)
                },
            );
            assert_eq!((came, &given[..]), (comes_at, &[false, true][..(comes_at - 1).min(2)]));
            let steps = [short, short * 4, LONG, LONG];
            assert_eq!(waits, steps[..comes_at]);
        }
    }
}
