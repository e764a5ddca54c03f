//! What the program does itself when memory is short. In: one function. Out: it is called with each new level, never within
//! itself, and a panic of it stays here.

use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::level::Level;

/// What a program gives.
type Callback = Box<dyn Fn(Level) + Send + Sync>;

static CALLBACK: RwLock<Option<Callback>> = RwLock::new(None);
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Sets the program's function; the one before it is dropped.
pub(super) fn set(callback: Callback) {
    let before = match CALLBACK.write() {
        Ok(mut place) => place.replace(callback),
        Err(poisoned) => poisoned.into_inner().replace(callback),
    };
    drop(before); // outside the lock: what it drops may allocate
}

/// Calls it. One that is being replaced at this moment is not called: nobody waits here.
pub(super) fn call(level: Level) {
    let Ok(place) = CALLBACK.try_read() else { return };
    let Some(callback) = place.as_ref() else { return };
    // An allocation must not unwind.
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callback(level))).is_err() {
        PANICS.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many calls ended in a panic.
pub(super) fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// One test: there is one function for the process.
    #[test]
    fn a_panic_stays_here_and_the_next_call_comes() {
        static CAME: Mutex<Vec<Level>> = Mutex::new(Vec::new());
        call(Level::High);
        set(Box::new(|_| panic!("replaced before it was called")));
        set(Box::new(|level| {
            CAME.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(level);
            assert!(level != Level::Severe, "a program's bug");
        }));
        let before = panics();
        for level in [Level::High, Level::Severe, Level::Calm] {
            call(level);
        }
        assert_eq!(
            *CAME.lock().unwrap_or_else(|poisoned| poisoned.into_inner()),
            [Level::High, Level::Severe, Level::Calm]
        );
        assert_eq!(panics() - before, 1);
    }
}
