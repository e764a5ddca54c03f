//! Whether threads return memory before they wait, and how often. In: an `install!`, the environment. Out: a time.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use allocanary_sys::sys;

/// The longest `give_back_every_ms`: an hour.
const MOST_MILLIS: u32 = 3_600_000;

/// The variables that take precedence over an `install!`.
const WORD: &CStr = c"ALLOCANARY_THREADS_GIVE_BACK";
const EVERY: &CStr = c"ALLOCANARY_GIVE_BACK_EVERY_MS";

/// The policy of an `install!` for threads that are about to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    gives_back: bool,
    every_millis: u32,
    /// Whether the program has set it in its code.
    asked: bool,
}

impl Policy {
    /// Equals `threads_give_back = true, give_back_every_ms = 100`.
    pub const DEFAULT: Policy = Policy { gives_back: true, every_millis: 100, asked: false };

    /// With `threads_give_back = <true or false>`.
    pub const fn with_give_back(self, gives_back: bool) -> Policy {
        Policy { gives_back, asked: true, ..self }
    }

    /// With `give_back_every_ms = <millis>`. A number out of range does not compile.
    pub const fn with_every_millis(self, millis: i64) -> Policy {
        assert!(
            0 <= millis && millis <= MOST_MILLIS as i64,
            "install!: give_back_every_ms is a number from 0 to 3600000"
        );
        Policy { every_millis: millis as u32, asked: true, ..self }
    }

    /// The policy, with the environment's values in place of its own, if they are valid.
    #[inline]
    fn with_variables(self, word: Option<&[u8]>, every: Option<&[u8]>) -> Policy {
        let mut policy = self;
        match word {
            Some(b"true") => policy = Policy { gives_back: true, asked: true, ..policy },
            Some(b"false") => policy.gives_back = false,
            _ => {}
        }
        if let Some(millis) = every.and_then(millis) {
            policy.every_millis = millis;
        }
        policy
    }
}

/// The policy in force: the minimum of milliseconds between two returns of memory, or [`KEEP`].
static IN_FORCE: AtomicU64 = AtomicU64::new(Policy::DEFAULT.every_millis as u64);
const KEEP: u64 = u64::MAX;

/// Makes a policy take effect, unless the environment overrides it. Allocates nothing.
#[inline]
pub(crate) fn boot(policy: Policy) {
    // SAFETY: `boot` runs before `main`.
    let (word, every) = unsafe { (sys::variable(WORD), sys::variable(EVERY)) };
    let policy = policy.with_variables(word, every);
    IN_FORCE.store(if policy.gives_back { u64::from(policy.every_millis) } else { KEEP }, Ordering::Relaxed);
}

/// The minimum time between two returns of memory by a thread; `None` if threads never return it.
#[inline]
pub(crate) fn every() -> Option<Duration> {
    match IN_FORCE.load(Ordering::Relaxed) {
        KEEP => None,
        millis => Some(Duration::from_millis(millis)),
    }
}

/// Invalid settings for idle threads in the environment, and settings that the allocator does not support.
pub(crate) fn problems(policy: Policy, cannot: Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut read = |name: &CStr, wanted: &str, fits: fn(&[u8]) -> bool| {
        let name = name.to_string_lossy();
        let found = std::env::var_os(&*name).map(|found| found.into_encoded_bytes());
        if let Some(found) = found.as_deref().filter(|found| !fits(found)) {
            problems.push(format!("{name}: wanted {wanted}, found `{}`", String::from_utf8_lossy(found)));
        }
        found
    };
    let word = read(WORD, "true or false", |found| matches!(found, b"true" | b"false"));
    let every = read(EVERY, "a whole number from 0 to 3600000", |found| millis(found).is_some());
    let policy = policy.with_variables(word.as_deref(), every.as_deref());
    problems
        .extend(cannot.filter(|_| policy.asked && policy.gives_back).map(|why| format!("threads_give_back: {why}")));
    problems
}

#[inline]
fn millis(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|millis| *millis <= MOST_MILLIS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_reads_its_words_and_numbers() {
        const { assert!(Policy::DEFAULT.gives_back && !Policy::DEFAULT.asked) };
        let policy = Policy::DEFAULT.with_give_back(false).with_every_millis(0);
        assert_eq!(policy, Policy { gives_back: false, every_millis: 0, asked: true });
        assert_eq!(
            (millis(b"3600000"), millis(b"3600001"), millis(b"-1"), millis(b"")),
            (Some(MOST_MILLIS), None, None, None)
        );
        assert!(std::panic::catch_unwind(|| Policy::DEFAULT.with_every_millis(-1)).is_err());
        assert_eq!(problems(policy, Some("cannot".into())), Vec::<String>::new(), "who keeps need not be able to");
        assert_eq!(
            problems(Policy::DEFAULT.with_give_back(true), Some("cannot".into())),
            ["threads_give_back: cannot"]
        );
        assert_eq!(problems(Policy::DEFAULT, Some("cannot".into())), Vec::<String>::new(), "nobody asked");
    }
}
