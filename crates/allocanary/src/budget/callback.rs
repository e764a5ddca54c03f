//! The program's own function for reacting when memory is short. In: one function. Out: a call of the function for each new level. The
//! function is never called within itself, and a panic in it ends here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use super::level::Level;

type Callback = Arc<dyn Fn(Level) + Send + Sync>;

static CALLBACK: RwLock<Option<Callback>> = RwLock::new(None);
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Sets the program's function. `callback` may itself call `set`. The previous function is dropped when no call of it
/// is running.
pub(super) fn set(callback: Box<dyn Fn(Level) + Send + Sync>) {
    let callback = Callback::from(callback);
    let before = match CALLBACK.write() {
        Ok(mut place) => place.replace(callback),
        Err(poisoned) => poisoned.into_inner().replace(callback),
    };
    drop(before); // outside the lock, because the dropped function may allocate
}

/// Calls the function, without a lock. While the function is being replaced, neither the old nor the new one is called, and the
/// level is lost: no thread waits here.
pub(super) fn call(level: Level) {
    let Some(callback) = CALLBACK.try_read().ok().and_then(|place| place.clone()) else { return };
    // A panic must not unwind through an allocation, nor through the drop of a function that was replaced meanwhile.
    let called = std::panic::AssertUnwindSafe(move || {
        callback(level);
        drop(callback);
    });
    if std::panic::catch_unwind(called).is_err() {
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

    /// One test only, because a process has one function.
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
        set(Box::new(|_| {
            set(Box::new(|level| CAME.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(level)))
        }));
        for level in [Level::High, Level::Last] {
            call(level);
        }
        let came = CAME.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).split_off(3);
        assert_eq!(came, [Level::Last], "replaced within itself");
    }
}
