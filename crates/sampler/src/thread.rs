//! What each thread keeps: the bytes until its next sample, random bits, and the bounds of its stack. In: bytes that it allocates. Out:
//! whether one of them has a mark.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use allocanary_stacks::walk::Bounds;
use allocanary_sys::clocks::monotonic_nanos;
use allocanary_sys::rng::Rng;
use allocanary_sys::thread_word;

use super::state::MEAN;
use allocanary_profile::weight::gap;

mod words {
    use super::thread_word;

    thread_word! {
        "allocanary_profile_left",
        /// Bytes until the next sample; 0 at the thread's start.
        left,
        /// Sets them.
        set_left
    }
    thread_word! {
        "allocanary_profile_random",
        /// The state of the random numbers; 0 at the thread's start.
        random,
        /// Sets it.
        set_random
    }
    thread_word! {
        "allocanary_profile_low",
        /// The first address of the thread's stack, if it is known.
        low,
        /// Sets it.
        set_low
    }
    thread_word! {
        "allocanary_profile_high",
        /// The end of the thread's stack.
        high,
        /// Sets it.
        set_high
    }
    thread_word! {
        "allocanary_profile_misses",
        /// Walks that began outside of it.
        misses,
        /// Sets them.
        set_misses
    }
}

#[inline(always)]
fn number(word: *mut u8) -> u64 {
    word.addr() as u64
}

#[inline(always)]
fn word(number: u64) -> *mut u8 {
    std::ptr::without_provenance_mut(number as usize)
}

/// The thread has allocated so many bytes since it called this last, the block that it is about to make included. Returns whether that
/// block is sampled. One subtraction of the thread's word, and a branch.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn draw(bytes: u64) -> bool {
    // SAFETY: changes this thread's copy of the word above.
    unsafe {
        core::arch::asm!(
            "mov {at}, qword ptr [rip + allocanary_profile_left@GOTTPOFF]",
            "sub qword ptr fs:[{at}], {bytes}",
            "jbe {due}",
            at = out(reg) _,
            bytes = in(reg) bytes,
            due = label { return due(bytes) },
            options(nostack),
        );
    }
    false
}

/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn draw(bytes: u64) -> bool {
    let left = number(words::left::<u8>());
    words::set_left(word(left.wrapping_sub(bytes)));
    bytes >= left && due(bytes)
}

/// The distance has come to its end, or the thread is new. The bytes were subtracted.
#[cold]
#[inline(never)]
fn due(bytes: u64) -> bool {
    let before = number(words::left::<u8>()).wrapping_add(bytes);
    let left = if before == 0 || is_from_before() { next() } else { before };
    // Below zero: a handler has come between the subtraction and this, and has allocated more than was left.
    let is_there = bytes as i64 >= left as i64;
    words::set_left(word(if is_there { next() } else { left - bytes }));
    is_there && MEAN.load(Relaxed) > 0
}

/// Whether the thread's distance is no draw: it is from before the sampler was on.
fn is_from_before() -> bool {
    MEAN.load(Relaxed) > 0 && number(words::random::<u8>()) == 0
}

/// What the draws of all threads begin with. Read from the clock once: a thread that begins later may not be allowed to read it.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Two processes hardly draw alike. Called before the sampler is on.
pub(super) fn seed() {
    SEED.store(monotonic_nanos() ^ (&raw const SEED).addr() as u64, Relaxed);
}

/// The calling thread draws anew: the sampler is on now.
pub(super) fn begin() {
    words::set_left(word(0));
}

/// The bytes until this thread's next sample, at least 1.
#[inline]
pub fn left() -> u64 {
    match number(words::left::<u8>()) {
        0 => {
            let first = next();
            words::set_left(word(first));
            first
        }
        left => left,
    }
}

/// A distance to the next sample.
fn next() -> u64 {
    /// SplitMix64 goes on by this.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    /// The distance at which a thread looks again, before the sampler is on.
    const LATER: u64 = 64 << 10;
    static THREADS: AtomicU64 = AtomicU64::new(0);
    let mean = MEAN.load(Relaxed);
    if mean == 0 {
        return LATER;
    }
    let mut state = number(words::random::<u8>());
    if state == 0 {
        state = Rng::part(SEED.load(Relaxed), THREADS.fetch_add(1, Relaxed)).next() | 1;
    }
    words::set_random(word(state.wrapping_add(STEP)));
    gap(Rng::new(state).next(), mean)
}

/// What the thread knows of its stack.
pub(super) fn bounds() -> Bounds {
    let [low, high, misses] = [words::low::<u8>(), words::high(), words::misses()].map(number);
    Bounds { low, high, misses }
}

/// Keeps it.
pub(super) fn set_bounds(bounds: Bounds) {
    words::set_low(word(bounds.low));
    words::set_high(word(bounds.high));
    words::set_misses(word(bounds.misses));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a distance that no draw has made is no mark: a small block is then sampled as rarely as any other.
    #[test]
    fn a_thread_from_before_the_sampler_has_no_false_sample() {
        MEAN.store(super::super::tests::OFTEN, Relaxed);
        let sampled = |_: &u32| {
            words::set_left(word(64));
            words::set_random(word(0));
            draw(64)
        };
        let count = (0..2000).filter(sampled).count();
        // 8 are expected.
        assert!(count < 60, "{count} of 2000");
    }
}
