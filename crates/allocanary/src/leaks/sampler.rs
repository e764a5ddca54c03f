//! Which blocks are recorded. In: the bytes that a thread allocates. Out: whether to record a block.
//!
//! A Poisson process over bytes, as in other heap profilers: each byte is a hit with the same small chance, and a block
//! with a hit in it is recorded. After each hit, the number of bytes until the next one is drawn from the exponential
//! distribution, so that a call costs one subtraction. A block of `s` bytes is recorded with the chance
//! `1 - exp(-s / mean)`. This makes the estimate of unrecorded blocks unbiased. A fixed step ("each 512 KiB") could
//! synchronise with a program's own pattern.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use allocanary_sys::clocks;
use allocanary_sys::rng::Rng;

thread_local! {
    /// Bytes to the next hit; negative after a hit.
    static LEFT: Cell<i64> = const { Cell::new(0) };
    static DICE: Cell<Option<Rng>> = const { Cell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

static THREADS: AtomicU64 = AtomicU64::new(0);

/// Subtracts `bytes` from the distance to the next hit, and returns whether it was reached.
#[inline(always)]
pub fn passes(bytes: u64) -> bool {
    let left = LEFT.get().wrapping_sub(bytes as i64);
    LEFT.set(left);
    left < 0
}

/// Called after [`passes`] returned `true` for a block of `bytes`. Returns whether to record the block. It draws the
/// distance to the next hit even if the caller will record nothing, so that the chances stay the same.
///
/// A thread's first call has no distance yet. It draws one, and checks the block against it.
pub fn is_hit(bytes: u64, mean: u64) -> bool {
    if DICE.get().is_none() {
        DICE.set(Some(Rng::part(clocks::monotonic_nanos(), THREADS.fetch_add(1, Relaxed))));
        LEFT.set(draw(mean));
        if !passes(bytes) {
            return false;
        }
    }
    LEFT.set(draw(mean));
    true
}

/// Bytes to the next hit, `mean` on average.
fn draw(mean: u64) -> i64 {
    let mut dice = DICE.get().unwrap_or(Rng::new(0));
    let bytes = exponential(&mut dice, mean);
    DICE.set(Some(dice));
    bytes
}

fn exponential(dice: &mut Rng, mean: u64) -> i64 {
    // In (0, 1], with 53 bits: 0 would have an infinite logarithm.
    let chance = ((dice.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-chance.ln() * mean as f64) as i64
}

/// The number of blocks that a recorded block represents: one divided by its chance of being recorded.
pub fn weight(drawn: u64, mean: u64) -> f64 {
    if mean <= 1 { 1.0 } else { -1.0 / (-(drawn as f64) / mean as f64).exp_m1() }
}

/// While this value lives, the thread records nothing: recording and reporting allocate blocks that are not the
/// program's.
pub struct Inside(());

impl Inside {
    /// `None` if the thread already has such a value.
    pub fn enter() -> Option<Inside> {
        // `then_some` would make the value before the check, and its drop would end the guard that is in force.
        if INSIDE.replace(true) { None } else { Some(Inside(())) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_the_next_hit_has_its_mean_and_spread() {
        let mut dice = Rng::new(7);
        let mean = 512 * 1024;
        let draws: Vec<f64> = (0..100_000).map(|_| exponential(&mut dice, mean) as f64 / mean as f64).collect();
        let average = draws.iter().sum::<f64>() / draws.len() as f64;
        let square = draws.iter().map(|draw| (draw - 1.0).powi(2)).sum::<f64>() / draws.len() as f64;
        // An exponential's deviation is its mean: five standard errors of 100,000 draws.
        assert!((average - 1.0).abs() < 5.0 / 316.0, "{average}");
        assert!((square - 1.0).abs() < 5.0 * 8.0_f64.sqrt() / 316.0, "{square}");
    }

    #[test]
    fn a_recorded_block_stands_for_those_that_were_not() {
        assert_eq!(weight(10, 0), 1.0);
        assert!((weight(1, 1000) - 1000.5).abs() < 0.01);
        assert!((weight(1_000_000, 1000) - 1.0).abs() < 1e-9);
        // For every size, recorded blocks times their weight is the number of all blocks.
        let (blocks, mean) = (200_000, 4096);
        for size in [64, 4096, 20_000] {
            let hits = (0..blocks).filter(|_| passes(size) && is_hit(size, mean)).count() as f64;
            let estimate = hits * weight(size, mean);
            let error = 5.0 * weight(size, mean) * hits.sqrt();
            assert!((estimate - f64::from(blocks)).abs() < error, "{size}: {estimate} of {blocks}, +- {error}");
        }
    }

    #[test]
    fn the_guard_holds_one_at_a_time() {
        let first = Inside::enter();
        assert!(first.is_some() && Inside::enter().is_none());
        assert!(Inside::enter().is_none(), "who was refused did not end it");
        drop(first);
        assert!(Inside::enter().is_some());
    }
}
