//! A filter by which a free sees, in one access, that a block has no record. In: addresses of recorded blocks, and of
//! blocks whose record is removed. Out: whether the block at an address may have a record. `false` means that it has
//! none.
//!
//! A byte for each of 65,536 hashes counts the recorded blocks with that hash. With sampling nearly every byte is 0.
//! The length is the same for every table, and the multiplier has 32 bits, so both are constants within the
//! instructions. A length that has to be loaded and a multiplier of 64 bits took twice as many instructions.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// The number of hashes is 2^BITS. It is small for Miri, which goes through the whole array at each use.
const BITS: u32 = if cfg!(miri) { 6 } else { 16 };
const LENGTH: usize = 1 << BITS;

/// Counts by hash. All bytes are zero in an empty filter.
pub struct Filter([AtomicU8; LENGTH]);

/// The empty filter, used as long as there is no table. Only read.
pub static NO_RECORDS: Filter = Filter([const { AtomicU8::new(0) }; LENGTH]);

impl Filter {
    /// Whether the block at the address may have a record.
    #[inline(always)]
    pub fn may_have(&self, address: usize) -> bool {
        self.0[hash(address)].load(Relaxed) != 0
    }

    /// Adds a recorded block.
    ///
    /// Relaxed order is enough: only a block's owner asks for the block's address, and a later owner gets the address
    /// from the present one.
    pub fn add(&self, address: usize) {
        self.change(address, |count| count + 1);
    }

    /// Removes a recorded block.
    pub fn remove(&self, address: usize) {
        self.change(address, |count| count - 1);
    }

    /// A byte that has reached 255 stays at 255, because its count is lost.
    fn change(&self, address: usize, change: impl Fn(u8) -> u8) {
        let known = |count: u8| (count != u8::MAX).then(|| change(count));
        _ = self.0[hash(address)].fetch_update(Relaxed, Relaxed, known);
    }
}

/// Blocks are 16 bytes apart. 32 bits of these distances are 64 GiB.
#[inline(always)]
fn hash(address: usize) -> usize {
    (((address >> 4) as u32).wrapping_mul(0x9e37_79b9) >> (32 - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Box<Filter> {
        Box::new(Filter([const { AtomicU8::new(0) }; LENGTH]))
    }

    #[test]
    fn what_was_added_may_be_there_until_it_is_removed() {
        let filter = empty();
        assert!(!filter.may_have(0x1000));
        filter.add(0x1000);
        filter.add(0x1000);
        filter.remove(0x1000);
        assert!(filter.may_have(0x1000));
        filter.remove(0x1000);
        assert!(!filter.may_have(0x1000));
    }

    #[test]
    fn a_byte_that_is_full_says_maybe_for_ever() {
        let filter = empty();
        (0..300).for_each(|_| filter.add(0x1000));
        (0..300).for_each(|_| filter.remove(0x1000));
        assert!(filter.may_have(0x1000));
    }

    #[test]
    #[cfg_attr(miri, ignore = "of Miri's short filter it does not hold")]
    fn blocks_of_any_size_are_spread() {
        // A thousand adjacent blocks are recorded. Of a thousand other blocks, only a few may pass the filter.
        for step in [16, 64, 4096, 65_536, 1 << 20] {
            let filter = empty();
            let address = |at: usize| 0x7f12_3400_0010 + at * step;
            (0..1000).for_each(|at| filter.add(address(2 * at)));
            let wrong = (0..1000).filter(|at| filter.may_have(address(2 * at + 1))).count();
            assert!(wrong < 100, "{step}: {wrong}");
        }
    }
}
