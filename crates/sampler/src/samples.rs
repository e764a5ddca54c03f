//! The sampled blocks that are alive. In: samples, addresses. Out: samples.
//!
//! A block may be in one of 16 places: those of two lines, which two hashes of its address choose. A new sample goes to the line with more
//! free places. So two thirds of all places are taken before a sample finds none. A search looks at all 16 places, so a freed place needs
//! no mark.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use allocanary_profile::layout::{ADDRESS, ADDRESS_BITS, OF_SAMPLE, SAMPLES, SIZE, SIZE_BITS, TAKEN};

/// Places of a line. They take two lines of the processor's cache.
const LINE: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) address: u64,
    pub(super) size: u64,
    /// The number of its stack's innermost frame; 0 if it has no stack.
    pub(super) frame: u32,
    /// The time at which it was made, in seconds since the table began.
    pub(super) seconds: u64,
}

/// All samples. All zeros is an empty table.
#[repr(C)]
pub(super) struct Samples([[AtomicU64; OF_SAMPLE]; SAMPLES]);

impl Samples {
    pub(super) fn words(&self) -> &[AtomicU64] {
        self.0.as_flattened()
    }

    fn lines(&self, address: u64) -> [&[[AtomicU64; OF_SAMPLE]]; 2] {
        let mixed = (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let line = |hash: u64| {
            let from = hash as usize & (SAMPLES - 1) & !(LINE - 1);
            &self.0[from..from + LINE]
        };
        [line(hash >> 40), line(hash >> 16)]
    }

    /// Adds a sample. Returns false if there is no place. If a block at this address is in the table, its free was not seen, and it is
    /// replaced.
    pub(super) fn insert(&self, sample: &Sample) -> bool {
        self.remove(sample.address);
        let lines = self.lines(sample.address);
        let free = |line: &[[AtomicU64; OF_SAMPLE]]| line.iter().filter(|place| place[0].load(Relaxed) == 0).count();
        let [first, second] = if free(lines[0]) >= free(lines[1]) { lines } else { [lines[1], lines[0]] };
        for [key, size] in first.iter().chain(second) {
            // A signal handler that interrupts this finds the place taken.
            if key.load(Relaxed) == 0 && key.compare_exchange(0, TAKEN, AcqRel, Relaxed).is_ok() {
                size.store(sample.size.min(SIZE) | sample.seconds << SIZE_BITS, Relaxed);
                key.store(sample.address | u64::from(sample.frame) << ADDRESS_BITS, Release);
                return true;
            }
        }
        false
    }

    pub(super) fn remove(&self, address: u64) -> Option<Sample> {
        self.lines(address).into_iter().flatten().find_map(|[key, size]| {
            let found = key.load(Acquire);
            if found & ADDRESS != address || found == TAKEN || address == 0 {
                return None;
            }
            let word = size.load(Relaxed);
            // If two threads free one block, which is an error of the program, only one of them gets the sample.
            key.compare_exchange(found, 0, AcqRel, Relaxed).ok()?;
            let frame = (found >> ADDRESS_BITS) as u32;
            Some(Sample { address, size: word & SIZE, frame, seconds: word >> SIZE_BITS })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_profile::layout::FRAMES;

    fn empty() -> Box<Samples> {
        // SAFETY: all zeros is none.
        unsafe { Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<Samples>()).cast()) }
    }

    fn sample(at: u64) -> Sample {
        Sample { address: 0x7f00_0000_0000 + at * 65_552, size: at + 1, frame: at as u32 % 9, seconds: at }
    }

    #[test]
    fn a_sample_comes_back_once() {
        let samples = empty();
        assert!(samples.insert(&sample(5)));
        assert_eq!(samples.remove(sample(6).address), None);
        assert_eq!(samples.remove(sample(5).address), Some(sample(5)));
        assert_eq!(samples.remove(sample(5).address), None);
        assert_eq!((samples.remove(0), samples.remove(TAKEN)), (None, None));
        let large = Sample { size: 1 << 60, ..sample(1) };
        assert!(samples.insert(&large) && samples.insert(&sample(1)), "the second takes the place of the first");
        assert_eq!(samples.remove(large.address), Some(sample(1)));
        assert_eq!(samples.remove(large.address), None);
    }

    #[test]
    fn the_highest_address_of_aarch64_is_kept_whole() {
        let (samples, high) = (empty(), Sample { address: 0xffff_f7ff_0010, frame: FRAMES as u32, ..sample(1) });
        assert!(samples.insert(&high));
        assert_eq!((samples.remove(high.address & 0x7fff_ffff_ffff), samples.remove(high.address)), (None, Some(high)));
    }

    #[test]
    fn two_thirds_of_the_places_are_used_before_one_is_missing() {
        let samples = empty();
        let added = (0..SAMPLES as u64 * 2).take_while(|at| samples.insert(&sample(*at))).count();
        assert!(added > SAMPLES * 2 / 3, "{added}");
        let rest = (added as u64..).take(SAMPLES * 2).filter(|at| samples.insert(&sample(*at))).count();
        assert!(added + rest <= SAMPLES);
        assert!((0..added as u64).all(|at| samples.remove(sample(at).address) == Some(sample(at))));
    }

    #[test]
    fn threads_that_add_and_remove_lose_nothing() {
        let samples = empty();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let samples = &samples;
                scope.spawn(move || {
                    for round in 0..200 {
                        let own = |at: u64| sample(thread * 100_000 + round * 10 + at);
                        assert!((0..50).all(|at| samples.insert(&own(at))));
                        assert!((0..50).all(|at| samples.remove(own(at).address) == Some(own(at))));
                    }
                });
            }
        });
        assert!(samples.0.iter().all(|[key, _]| key.load(Relaxed) == 0));
    }
}
