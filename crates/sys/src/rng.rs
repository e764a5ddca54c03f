//! A small random number generator with a seed (SplitMix64). Its numbers are the same on every machine and in every release.
//!
//! This is not a crate's generator, because a workload's requests must not change with another crate's version.

/// SplitMix64, after Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
#[derive(Clone, Copy, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// A generator for one part of a whole: two parts have no draws in common.
    ///
    /// All generators go through the same cycle of 2^64 states, each from its own start. If two starts differ by a
    /// small multiple of the step, one generator repeats the draws of the other. So the start is a hash of seed and
    /// part.
    pub fn part(seed: u64, part: u64) -> Self {
        let hashed = Rng(seed).next();
        Rng(Rng(hashed ^ part).next())
    }

    /// The next 64 random bits.
    #[inline]
    #[allow(clippy::should_implement_trait)] // an iterator that never ends would make every call an Option
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in `0..bound`; 0 if `bound` is 0. The bias is below `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Puts `items` in a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        let mut rng = Rng::new(1234567);
        let numbers = [rng.next(), rng.next(), rng.next()];
        assert_eq!(numbers, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    /// Takes 64 draws of each of 64 parts of some seeds. Does the same for seeds that are drawn from parts, like a
    /// study's rounds. No draw occurs twice.
    #[test]
    fn parts_have_no_draws_in_common() {
        let mut seen = std::collections::HashMap::new();
        let mut look = |seed: u64, part: u64, what: &str| {
            let mut rng = Rng::part(seed, part);
            for _ in 0..64 {
                let draw = rng.next();
                let other = seen.insert(draw, (what.to_string(), seed, part));
                assert_eq!(other, None, "{what} {seed}, part {part} draws {draw}");
            }
        };
        for seed in [0, 1, 2, 3, 42, 0x9e37_79b9_7f4a_7c15] {
            for part in 0..64 {
                look(seed, part, "seed");
                look(!seed, part, "not seed");
            }
        }
        for round in 0..20 {
            let seed = Rng::part(7, round).next();
            (0..64).for_each(|worker| look(seed, worker, "round"));
        }
    }

    #[test]
    fn a_shuffle_loses_nothing_and_follows_the_seed() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            Rng::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut sorted = shuffled(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<u32>>());
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut rng = Rng::new(9);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[rng.below(7)] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(rng.below(0), 0);
    }
}
