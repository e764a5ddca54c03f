//! The locks of an allocator that has no handlers for `fork`. In: the allocator's calls of pthread_mutex_lock and
//! pthread_mutex_unlock, and the handlers of forks. Out: the C library's answers. A fork waits until no thread has a lock.
//!
//! mimalloc takes a lock that all threads share when a thread starts and when it ends. If the process forks while a thread has this
//! lock, the child waits for it for ever, because the thread that would unlock it does not exist there. `preload-mimalloc` is
//! therefore linked with `--wrap` for the two functions (see the package's `build.rs`).
//!
//! One word counts the threads that have a lock or wait for one, and the forks in progress. During a fork no thread takes its first
//! lock. A thread that has a lock may take another one: the fork waits for this thread. All waits end after ten seconds; then the
//! fork, or the lock, goes on as without this file. A wait could last for ever in two cases. A signal handler may have stopped the
//! thread that has the lock until the fork is done. And the C library takes its own locks between this handler and the fork.
//!
//! Without a fork the cost is two atomic changes for each lock. Nothing is allocated.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use allocanary_sys::thread_word;

use crate::raw;

/// C's `pthread_mutex_lock` or `pthread_mutex_unlock`.
pub type MutexFunction = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The value that one fork adds to the word, above the number of threads.
const FORK: u32 = 1 << 24;
const THREADS: u32 = FORK - 1;

/// The longest whole wait, and the longest single sleep in it, in nanoseconds.
const PATIENCE: u64 = 10_000_000_000;
const ONE_WAIT: libc::c_long = 100_000_000;

struct Gate(AtomicU32);

static GATE: Gate = Gate(AtomicU32::new(0));

impl Gate {
    /// A thread takes its first lock. It waits while a fork is in progress.
    fn enter(&self) {
        let mut ends = None;
        while let Err(word) = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            (word < FORK || is_over(&mut ends)).then_some(word + 1)
        }) {
            self.wait(word);
        }
    }

    /// A thread has released its last lock. In a fork's child the word may not count this thread: a signal handler may have forked
    /// while the thread had the lock.
    fn leave(&self) {
        let one_less = |word: u32| (word & THREADS != 0).then(|| word - 1);
        if self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok_and(|word| word >= FORK) {
            self.wake();
        }
    }

    /// A fork begins. From now on no thread takes its first lock, and the fork waits until no thread has one. A fork in a signal
    /// handler does not wait for a lock of the interrupted code, because that is the same thread.
    fn close(&self, has_lock: bool) {
        let mut word = self.0.fetch_add(FORK, Ordering::AcqRel) + FORK;
        let mut ends = None;
        while word & THREADS != 0 && !has_lock && !is_over(&mut ends) {
            self.wait(word);
            word = self.0.load(Ordering::Acquire);
        }
    }

    /// The fork is done, in the parent.
    fn open(&self) {
        self.0.fetch_sub(FORK, Ordering::AcqRel);
        self.wake();
    }

    /// The fork is done, in the child: there is one thread.
    fn open_in_child(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Waits until the word changes, at most for [`ONE_WAIT`].
    fn wait(&self, word: u32) {
        let time = libc::timespec { tv_sec: 0, tv_nsec: ONE_WAIT };
        let how = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        // SAFETY: the kernel reads the word and the time, which outlive the call.
        unsafe {
            raw::call(libc::SYS_futex, [self.0.as_ptr() as usize, how, word as usize, (&raw const time) as usize, 0, 0])
        };
    }

    fn wake(&self) {
        let how = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
        // SAFETY: wakes threads that wait for this word.
        unsafe { raw::call(libc::SYS_futex, [self.0.as_ptr() as usize, how, i32::MAX as usize, 0, 0, 0]) };
    }
}

/// Whether the time of a wait is over. The first call begins the wait; `ends` is the end of its time.
fn is_over(ends: &mut Option<u64>) -> bool {
    let now = allocanary_sys::clocks::monotonic_nanos();
    now >= *ends.get_or_insert(now + PATIENCE)
}

/// Makes forks wait. Runs in the constructor.
pub fn wait_at_forks() {
    extern "C" fn before() {
        GATE.close(held() != 0);
    }
    extern "C" fn after() {
        GATE.open();
    }
    extern "C" fn in_child() {
        GATE.open_in_child();
    }
    // SAFETY: the handlers change one static atomic, and allocate nothing. glibc registers them without an allocation.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
}

/// The allocator's `pthread_mutex_lock`; `real` is C's.
///
/// # Safety
///
/// C's contract.
pub unsafe fn lock(mutex: *mut c_void, real: MutexFunction) -> c_int {
    // A signal handler may fork between any two lines. So this thread's number is raised before the word counts the thread, and
    // lowered after the word no longer counts it.
    let before = held();
    set_held(before + 1);
    if before == 0 {
        GATE.enter();
    }
    // SAFETY: the caller's promise.
    unsafe { real(mutex) }
}

/// The allocator's `pthread_mutex_unlock`; `real` is C's.
///
/// # Safety
///
/// C's contract.
pub unsafe fn unlock(mutex: *mut c_void, real: MutexFunction) -> c_int {
    // SAFETY: the caller's promise.
    let answer = unsafe { real(mutex) };
    let before = held();
    if before == 1 {
        GATE.leave();
    }
    set_held(before.saturating_sub(1));
    answer
}

thread_word! {
    "allocanary_preload_held",
    /// How many locks the calling thread has, as a pointer.
    word,
    /// Sets how many locks the calling thread has.
    set_word
}

/// How many locks the calling thread has.
#[inline(always)]
fn held() -> usize {
    word::<()>().addr()
}

#[inline(always)]
fn set_held(number: usize) {
    set_word(std::ptr::without_provenance_mut::<()>(number));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn word(gate: &Gate) -> [u32; 2] {
        let word = gate.0.load(Ordering::Acquire);
        [word / FORK, word & THREADS]
    }

    #[test]
    fn a_fork_waits_for_the_threads_that_have_a_lock() {
        let (gate, closed) = (Gate(AtomicU32::new(0)), AtomicBool::new(false));
        gate.enter();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                gate.close(false);
                assert_eq!(word(&gate), [1, 0]);
                closed.store(true, Ordering::Release);
            });
            while word(&gate) != [1, 1] {
                std::thread::yield_now();
            }
            assert!(!closed.load(Ordering::Acquire), "it waits for this thread");
            gate.leave();
        });
        assert!(closed.load(Ordering::Acquire));
    }

    #[test]
    fn no_thread_takes_its_first_lock_while_a_fork_is_under_way() {
        let (gate, entered) = (Gate(AtomicU32::new(0)), AtomicBool::new(false));
        gate.close(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                gate.enter();
                entered.store(true, Ordering::Release);
            });
            std::thread::sleep(std::time::Duration::from_millis(20)); // enough time to enter, if it were allowed
            assert!(!entered.load(Ordering::Acquire) && word(&gate) == [1, 0]);
            gate.open();
        });
        assert_eq!((entered.load(Ordering::Acquire), word(&gate)), (true, [0, 1]));
    }

    #[test]
    fn a_fork_in_a_handler_that_interrupted_a_lock_waits_for_nobody_and_the_child_counts_anew() {
        let gate = Gate(AtomicU32::new(0));
        gate.enter();
        gate.close(true);
        assert_eq!(word(&gate), [1, 1]);
        let child = Gate(AtomicU32::new(gate.0.load(Ordering::Acquire)));
        gate.open();
        gate.leave();
        child.open_in_child();
        child.leave();
        assert_eq!([word(&gate), word(&child)], [[0, 0], [0, 0]]);
        child.enter();
        assert_eq!(word(&child), [0, 1]);
    }

    #[test]
    fn two_forks_at_once_open_the_gate_together() {
        let gate = Gate(AtomicU32::new(0));
        gate.close(false);
        gate.close(false);
        gate.open();
        assert_eq!(word(&gate), [1, 0]);
        gate.open();
        gate.enter();
        assert_eq!(word(&gate), [0, 1]);
    }

    #[test]
    fn the_locks_of_a_thread_are_counted_once() {
        unsafe extern "C" fn real(_mutex: *mut c_void) -> c_int {
            7
        }
        let null = std::ptr::null_mut();
        // SAFETY: the function above takes any pointer.
        unsafe {
            assert_eq!([lock(null, real), lock(null, real)], [7, 7]);
            assert_eq!((held(), word(&GATE)), (2, [0, 1]));
            assert_eq!(std::thread::spawn(held).join().unwrap(), 0, "each thread has its own number");
            assert_eq!([unlock(null, real), unlock(null, real), unlock(null, real)], [7; 3]);
        }
        assert_eq!((held(), word(&GATE)), (0, [0, 0]), "one too many changes nothing");
    }
}
