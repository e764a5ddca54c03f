//! The data of each thread: the bytes until its next sample, random bits, and the bounds of its stack. In: bytes that the thread allocates.
//! Out: whether a block is sampled.

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
        /// Sets these bytes.
        set_left
    }
    thread_word! {
        "allocanary_profile_random",
        /// The state of the random numbers; 0 at the thread's start.
        random,
        /// Sets the state.
        set_random
    }
    thread_word! {
        "allocanary_profile_low",
        /// The first address of the thread's stack; 0 if it is not known.
        low,
        /// Sets this address.
        set_low
    }
    thread_word! {
        "allocanary_profile_high",
        /// The end of the thread's stack.
        high,
        /// Sets this address.
        set_high
    }
    thread_word! {
        "allocanary_profile_misses",
        /// The number of walks that began outside of these bounds.
        misses,
        /// Sets this number.
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

/// Counts the bytes that the thread has allocated since its last call of this function, with the block that it is about to allocate.
/// Returns whether this block is sampled. The cost is one subtraction from the thread's word, and a branch.
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

/// The same, without assembly.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn draw(bytes: u64) -> bool {
    let left = number(words::left::<u8>());
    words::set_left(word(left.wrapping_sub(bytes)));
    bytes >= left && due(bytes)
}

/// Called when the distance to the next sample has ended, or when the thread is new. `bytes` were already subtracted.
#[cold]
#[inline(never)]
fn due(bytes: u64) -> bool {
    let before = number(words::left::<u8>()).wrapping_add(bytes);
    let left = if before == 0 || is_from_before() { next() } else { before };
    // `left` is negative if a signal handler ran after the subtraction, and allocated more than was left.
    let is_there = bytes as i64 >= left as i64;
    words::set_left(word(if is_there { next() } else { left - bytes }));
    is_there && MEAN.load(Relaxed) > 0
}

/// Whether the thread's present distance is from before the sampler was on, so that it was not drawn.
fn is_from_before() -> bool {
    MEAN.load(Relaxed) > 0 && number(words::random::<u8>()) == 0
}

/// The seed of all threads' draws. The clock is read only once, because a thread that begins later may be forbidden to read it.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Sets a seed that hardly any other process has. Called before the sampler is on.
pub(super) fn seed() {
    SEED.store(monotonic_nanos() ^ (&raw const SEED).addr() as u64, Relaxed);
}

/// Makes the calling thread draw a new distance, because the sampler is on now.
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

/// Draws a distance to the next sample, in bytes.
fn next() -> u64 {
    /// The step of SplitMix64 from one state to the next.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    /// Before the sampler is on, a thread checks again after this many bytes.
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

/// The thread's knowledge of its stack.
pub(super) fn bounds() -> Bounds {
    let [low, high, misses] = [words::low::<u8>(), words::high(), words::misses()].map(number);
    Bounds { low, high, misses }
}

/// Stores the thread's knowledge of its stack.
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
