//! What giving memory back before a wait is made of: the policy, a thread's own record of the last time, and turns for
//! what threads share. In: an `install!`, the environment, counts, a clock. Out: whether it is time. Calls no allocator.
//!
//! The calls that a program makes are [`tuning::thread_idle`](crate::tuning::thread_idle) and
//! [`tuning::wait`](crate::tuning::wait).

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::setting::equal;
use crate::sys;

/// What a thread must have allocated and freed since the last time, in bytes, where the allocator counts them. No thread
/// keeps more of it than that.
const ENOUGH: u64 = 16 << 10;

/// The longest `idle_every_ms`: an hour.
const MOST_MILLIS: u32 = 3_600_000;

const WORD: &CStr = c"ALLOCANARY_IDLE";
const EVERY: &CStr = c"ALLOCANARY_IDLE_EVERY_MS";

/// What an `install!` says of threads that are about to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    gives_back: bool,
    every_millis: u32,
    /// Whether the program said so.
    asked: bool,
}

impl Policy {
    /// `idle = give_back, idle_every_ms = 100`.
    pub const DEFAULT: Policy = Policy { gives_back: true, every_millis: 100, asked: false };

    /// With `idle = <word>`. A word that is none does not compile.
    pub const fn with_word(self, word: &str) -> Policy {
        let gives_back = equal(word, "give_back");
        assert!(gives_back || equal(word, "keep"), "install!: idle is give_back or keep");
        Policy { gives_back, asked: true, ..self }
    }

    /// With `idle_every_ms = <millis>`. A number out of range does not compile.
    pub const fn with_every_millis(self, millis: i64) -> Policy {
        assert!(0 <= millis && millis <= MOST_MILLIS as i64, "install!: idle_every_ms is a number from 0 to 3600000");
        Policy { every_millis: millis as u32, asked: true, ..self }
    }

    /// With what the environment says, as far as it can be read.
    #[inline]
    fn with_environment(self) -> Policy {
        let mut policy = self;
        match sys::variable(WORD) {
            Some(b"give_back") => policy = Policy { gives_back: true, asked: true, ..policy },
            Some(b"keep") => policy.gives_back = false,
            _ => {}
        }
        if let Some(millis) = sys::variable(EVERY).and_then(millis) {
            policy.every_millis = millis;
        }
        policy
    }
}

/// The policy in force: the least milliseconds between two times, or [`KEEP`].
static IN_FORCE: AtomicU64 = AtomicU64::new(Policy::DEFAULT.every_millis as u64);
const KEEP: u64 = u64::MAX;

/// Puts a policy in force, with what the environment says over it. Allocates nothing.
#[inline]
pub(crate) fn boot(policy: Policy) {
    let policy = policy.with_environment();
    IN_FORCE.store(if policy.gives_back { u64::from(policy.every_millis) } else { KEEP }, Ordering::Relaxed);
}

/// The least time between two times that a thread gives memory back; none where it never shall.
#[inline]
pub(crate) fn every() -> Option<Duration> {
    match IN_FORCE.load(Ordering::Relaxed) {
        KEEP => None,
        millis => Some(Duration::from_millis(millis)),
    }
}

/// What is wrong with what the environment says of idle threads, and with what was asked of an allocator that cannot.
pub(crate) fn problems(policy: Policy, cannot: Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut read = |name: &CStr, wanted: &str, fits: fn(&[u8]) -> bool| {
        if let Some(found) = sys::variable(name).filter(|found| !fits(found)) {
            let (name, found) = (name.to_string_lossy(), String::from_utf8_lossy(found));
            problems.push(format!("{name}: wanted {wanted}, found `{found}`"));
        }
    };
    read(WORD, "give_back or keep", |found| matches!(found, b"give_back" | b"keep"));
    read(EVERY, "a whole number from 0 to 3600000", |found| millis(found).is_some());
    let policy = policy.with_environment();
    problems.extend(cannot.filter(|_| policy.asked && policy.gives_back).map(|why| format!("idle: {why}")));
    problems
}

/// `idle_every_ms` as text.
#[inline]
fn millis(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|millis| *millis <= MOST_MILLIS)
}

/// A thread's own record: when it gave memory back, and what it had allocated and freed by then.
#[derive(Debug)]
pub struct Thread {
    nanos: Cell<u64>,
    bytes: Cell<u64>,
    /// Where the allocator counts the bytes that this thread has allocated, and those that it has freed.
    counters: Cell<Option<[&'static AtomicU64; 2]>>,
}

impl Thread {
    /// Of a thread that never gave anything back.
    pub const fn new() -> Self {
        Thread { nanos: Cell::new(0), bytes: Cell::new(0), counters: Cell::new(None) }
    }

    /// Bytes that this thread has allocated and freed so far, by the counters that `find` finds once; none where it
    /// finds none.
    #[inline]
    pub fn bytes(&self, find: impl FnOnce() -> Option<[&'static AtomicU64; 2]>) -> Option<u64> {
        let counters = match self.counters.get() {
            Some(counters) => counters,
            None => {
                let found = find()?;
                self.counters.set(Some(found));
                found
            }
        };
        let [allocated, freed] = counters.map(|counter| counter.load(Ordering::Relaxed));
        Some(allocated.wrapping_add(freed))
    }

    /// Whether it is time: `bytes` shows enough traffic since the last time (none: it is not known and does not count), and
    /// `every` has passed. It counts as done then.
    #[inline]
    pub fn is_due(&self, every: Duration, bytes: Option<u64>) -> bool {
        let before = self.bytes.get();
        let bytes = bytes.unwrap_or(before.wrapping_add(ENOUGH));
        bytes.wrapping_sub(before) >= ENOUGH && self.has_passed(every, bytes)
    }

    #[inline]
    fn has_passed(&self, every: Duration, bytes: u64) -> bool {
        let now = coarse_nanos();
        // A thread's first time is due however early after the start of the machine.
        let last = self.nanos.get();
        if last > 0 && u128::from(now.saturating_sub(last)) < every.as_nanos() || every == Duration::MAX {
            return false;
        }
        self.nanos.set(now);
        self.bytes.set(bytes);
        true
    }
}

impl Default for Thread {
    fn default() -> Self {
        Self::new()
    }
}

/// The longest wait that [`wait_twice`] asks for: a number that no clock overflows with.
const LONG: Duration = Duration::from_secs(3600);

/// Waits for a `short` time, and then, if nothing came, for as long as it takes; calls `give_back` between the two.
/// `wait_for` waits for at most the time that it is given and says what came.
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

/// The kernel's clock as of its last tick, 1 to 10 ms old: read without a system call and without the processor's own clock.
#[inline]
fn coarse_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Work that one thread at a time does for all: who comes while it is done does not wait, and it is then done once more.
#[derive(Debug, Default)]
pub struct Turns {
    /// The process whose thread is at work, and how many have asked, in the lower half; 0 where nobody is.
    asked: AtomicU64,
}

/// After so many rounds a worker goes, though others ask: it has work of its own. What they leave is found next time.
const MOST_ROUNDS: u32 = 16;

impl Turns {
    /// Nobody at work.
    pub const fn new() -> Self {
        Turns { asked: AtomicU64::new(0) }
    }

    /// Does `work`, or makes the thread that is at it do it once more.
    #[inline]
    pub fn take(&self, work: impl FnMut()) {
        self.take_as(std::process::id(), work);
    }

    fn take_as(&self, this: u32, mut work: impl FnMut()) {
        let first = u64::from(this) << 32 | 1;
        let mut seen = self.asked.load(Ordering::Acquire);
        loop {
            // What another process began was begun before a fork: its thread is not here.
            let another = seen >> 32 == u64::from(this) && seen as u32 > 0;
            let next = if another { seen.wrapping_add(1) } else { first };
            match self.asked.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if another => return,
                Ok(_) => break,
                Err(found) => seen = found,
            }
        }
        let mut seen = first;
        for round in 1.. {
            work();
            match self.asked.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(found) if round < MOST_ROUNDS => seen = found,
                Err(_) => return self.asked.store(0, Ordering::Release),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_due_when_it_has_done_enough_and_time_has_passed() {
        let hour = Duration::from_secs(3600);
        let thread = Thread::new();
        assert!(!thread.is_due(Duration::ZERO, Some(ENOUGH - 1)));
        assert!(thread.is_due(hour, Some(ENOUGH)), "the first time does not wait");
        assert!(!thread.is_due(Duration::ZERO, Some(ENOUGH * 2 - 1)));
        assert!(!thread.is_due(hour, Some(ENOUGH * 2)));
        assert!(thread.is_due(Duration::ZERO, Some(ENOUGH * 2)));
        assert!(!thread.is_due(hour, None) && thread.is_due(Duration::ZERO, None), "what is not known does not count");
        assert!(!Thread::new().is_due(Duration::MAX, Some(u64::MAX)), "never");
    }

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

    #[test]
    fn counters_are_looked_for_once_and_add_up() {
        static COUNTERS: [AtomicU64; 2] = [AtomicU64::new(3), AtomicU64::new(4)];
        let thread = Thread::new();
        assert_eq!(thread.bytes(|| None), None);
        assert_eq!(thread.bytes(|| Some([&COUNTERS[0], &COUNTERS[1]])), Some(7));
        COUNTERS[1].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(thread.bytes(|| panic!("they are known")), Some(2), "a sum that wraps around is one");
    }

    #[test]
    fn who_asks_while_work_is_done_does_not_wait_and_it_is_done_again() {
        let (turns, mut done) = (Turns::new(), 0);
        turns.take(|| {
            done += 1;
            if done == 1 {
                turns.take(|| panic!("another is at it"));
                turns.take(|| panic!("another is at it"));
            }
        });
        assert_eq!(done, 2, "two that asked meanwhile are served by one more round");
        turns.take(|| done += 1);
        assert_eq!(done, 3);
    }

    #[test]
    fn nobody_works_for_others_for_ever() {
        let (turns, mut done) = (Turns::new(), 0);
        turns.take(|| {
            done += 1;
            turns.take(|| panic!("another is at it"));
        });
        assert_eq!(done, MOST_ROUNDS);
        turns.take(|| done += 1);
        assert_eq!(done, MOST_ROUNDS + 1, "the turn was left free");
    }

    #[test]
    fn what_another_process_began_is_begun_anew() {
        let (turns, mut done) = (Turns::new(), 0);
        turns.asked.store(1 << 32 | 3, Ordering::SeqCst); // a thread of the parent, at the time of the fork
        turns.take_as(2, || done += 1);
        assert_eq!(done, 1);
    }

    #[test]
    fn no_request_is_lost_among_threads() {
        let (turns, wanted, done) = (Turns::new(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
                        wanted.fetch_add(1, Ordering::SeqCst);
                        turns.take(|| done.store(wanted.load(Ordering::SeqCst), Ordering::SeqCst));
                    }
                });
            }
        });
        // Those that a busy worker left are found by the next.
        turns.take(|| done.store(wanted.load(Ordering::SeqCst), Ordering::SeqCst));
        assert_eq!(done.into_inner(), wanted.into_inner());
        assert_eq!(turns.asked.into_inner(), 0, "nobody is left at work");
    }

    #[test]
    fn the_policy_reads_its_words_and_numbers() {
        assert!(Policy::DEFAULT.gives_back && !Policy::DEFAULT.asked);
        let policy = Policy::DEFAULT.with_word("keep").with_every_millis(0);
        assert_eq!(policy, Policy { gives_back: false, every_millis: 0, asked: true });
        assert_eq!(
            (millis(b"3600000"), millis(b"3600001"), millis(b"-1"), millis(b"")),
            (Some(MOST_MILLIS), None, None, None)
        );
        assert!(std::panic::catch_unwind(|| Policy::DEFAULT.with_every_millis(-1)).is_err());
        assert!(std::panic::catch_unwind(|| Policy::DEFAULT.with_word("auto")).is_err());
        assert_eq!(problems(policy, Some("cannot".into())), Vec::<String>::new(), "who keeps need not be able to");
        assert_eq!(problems(Policy::DEFAULT.with_word("give_back"), Some("cannot".into())), ["idle: cannot"]);
        assert_eq!(problems(Policy::DEFAULT, Some("cannot".into())), Vec::<String>::new(), "nobody asked");
    }
}
