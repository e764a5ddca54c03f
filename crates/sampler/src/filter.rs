//! Finds the blocks that are surely not sampled. In: an address. Out: no, or perhaps. For nearly every freed block this is a load and a
//! branch.
//!
//! A byte for each of 65,536 values of a hash counts the sampled blocks with that value. With 2,000 sampled blocks (1 GiB at the usual mean
//! distance), one freed block in 32 is searched for in vain. Pages whose bytes no sampled block has changed are not resident.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const BITS: u32 = 16;

#[repr(align(4096))]
struct Filter([AtomicU8; 1 << BITS]);

static FILTER: Filter = Filter([const { AtomicU8::new(0) }; 1 << BITS]);

/// The place of an address: a hash of its lower half, by one instruction with a short constant. Blocks that are 4 GiB apart share a place.
#[inline(always)]
fn place(address: u64) -> usize {
    ((address as u32).wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize
}

fn count(address: u64) -> &'static AtomicU8 {
    &FILTER.0[place(address)]
}

/// Whether a block may be sampled.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn may_be_sampled(block: *mut u8) -> bool {
    // The compiler would load an atomic byte to a register first. This saves one instruction in each `free`.
    // SAFETY: reads a byte of the table.
    unsafe {
        core::arch::asm!(
            "cmp byte ptr [{table} + {place}], 0",
            "jne {perhaps}",
            table = in(reg) &raw const FILTER,
            place = in(reg) place(block.addr() as u64),
            perhaps = label { return true },
            options(nostack, readonly),
        );
    }
    false
}

/// Whether a block may be sampled.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn may_be_sampled(block: *mut u8) -> bool {
    count(block.addr() as u64).load(Relaxed) != 0
}

/// Adds a sampled block. A count that reaches 255 stays there, because it may then stand for more blocks.
pub(super) fn add(address: u64) {
    let _ = count(address).fetch_update(Relaxed, Relaxed, |count| count.checked_add(1));
}

/// Removes a sampled block.
pub(super) fn remove(address: u64) {
    let _ = count(address).fetch_update(
        Relaxed,
        Relaxed,
        |count| if count == u8::MAX { None } else { count.checked_sub(1) },
    );
}

/// Clears the filter in the child of a fork, which has none of its parent's samples. If the kernel refuses, the child searches for them in
/// vain.
pub(super) fn wipe_at_fork() {
    let start = (&raw const FILTER).cast_mut().cast();
    // SAFETY: our own static, whose pages have nothing else on them.
    unsafe { libc::madvise(start, size_of::<Filter>(), libc::MADV_WIPEONFORK) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_known_while_it_is_sampled_and_few_others_are() {
        let block = |address: u64| std::ptr::without_provenance_mut::<u8>(address as usize);
        let sampled: Vec<u64> = (0..1000_u64).map(|at| 0x7100_0000_0000 + at * 524_304).collect();
        sampled.iter().for_each(|address| add(*address));
        assert!(sampled.iter().all(|address| may_be_sampled(block(*address))));
        let perhaps = (0..100_000_u64).filter(|at| may_be_sampled(block(0x7200_0000_0000 + at * 16))).count();
        assert!(perhaps < 3000, "{perhaps} of 100,000");
        sampled.iter().for_each(|address| remove(*address));
        assert!(!sampled.iter().any(|address| may_be_sampled(block(*address))));
        (0..300).for_each(|_| add(64));
        (0..300).for_each(|_| remove(64));
        assert!(may_be_sampled(block(64)), "too many to count");
    }
}
