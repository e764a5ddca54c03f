//! Which blocks are surely not sampled. In: an address. Out: no, or perhaps. A load and a branch for nearly every block that is freed.
//!
//! A byte for each of 65,536 values of a hash counts the sampled blocks with that value. With 2,000 sampled blocks, those of 1 GiB at the
//! usual mean distance, one block in 32 is looked for in vain. Pages that no sampled block led to are not resident.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const BITS: u32 = 16;

#[repr(align(4096))]
struct Filter([AtomicU8; 1 << BITS]);

static FILTER: Filter = Filter([const { AtomicU8::new(0) }; 1 << BITS]);

/// Of the lower half of the address: one instruction with a short constant. Blocks 4 GiB apart share a value.
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
    // The compiler loads an atomic byte to a register first. This is one instruction of each `free` less.
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

/// Adds a sampled block. 255 of them cannot be told from more: then the value stays.
pub(super) fn add(address: u64) {
    let _ = count(address).fetch_update(Relaxed, Relaxed, |count| count.checked_add(1));
}

/// Removes one.
pub(super) fn remove(address: u64) {
    let _ = count(address).fetch_update(
        Relaxed,
        Relaxed,
        |count| if count == u8::MAX { None } else { count.checked_sub(1) },
    );
}

/// The child of a fork has none of its parent's samples. If the kernel refuses, it looks for them in vain.
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
