//! The frames of sampled stacks. In: return addresses. Out: a number for each stack, and the bytes and blocks that it has allocated.
//!
//! A frame's key is its return address and its caller's number, so that one instruction takes a place. A frame is at the place of its hash,
//! or at one of the next places. A place is never freed.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use allocanary_profile::layout::{ADDRESS, ADDRESS_BITS, BLOCK, FRAMES, OF_FRAME};

/// The number of places that are searched. With three quarters of all places taken, a frame is hardly ever farther from its hash.
const FAR: usize = 64;

/// All frames. All zeros is an empty table.
#[repr(C)]
pub(super) struct Frames([[AtomicU64; OF_FRAME]; FRAMES]);

impl Frames {
    pub(super) fn words(&self) -> &[AtomicU64] {
        self.0.as_flattened()
    }

    /// Finds or adds the frame with this caller (`parent`) and this return address. Returns its number, or 0 if there is no place.
    pub(super) fn find_or_add(&self, parent: u32, pc: u64) -> u32 {
        let key = pc & ADDRESS | u64::from(parent) << ADDRESS_BITS;
        let from = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
        for place in (from..from + FAR).map(|place| place & (FRAMES - 1)) {
            let found = match self.0[place][0].load(Acquire) {
                0 => self.0[place][0].compare_exchange(0, key, AcqRel, Acquire).err().unwrap_or(key),
                found => found,
            };
            if found == key {
                return place as u32 + 1;
            }
        }
        0
    }

    /// Adds the bytes and blocks that a sample represents to those of its stack.
    pub(super) fn add(&self, frame: u32, bytes: f64, blocks: f64) {
        if let Some([_, of_bytes, of_blocks]) = (frame as usize).checked_sub(1).and_then(|place| self.0.get(place)) {
            of_bytes.fetch_add((bytes + 0.5) as u64, Relaxed);
            of_blocks.fetch_add((blocks * BLOCK as f64 + 0.5) as u64, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Box<Frames> {
        // SAFETY: all zeros is none.
        unsafe { Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<Frames>()).cast()) }
    }

    #[test]
    fn a_frame_has_one_number_for_each_caller() {
        let frames = empty();
        let outer = frames.find_or_add(0, 0x5555_0000_1234);
        let inner = frames.find_or_add(outer, 0x5555_0000_9999);
        assert!(outer > 0 && inner > 0 && outer != inner);
        assert_eq!(
            (frames.find_or_add(0, 0x5555_0000_1234), frames.find_or_add(outer, 0x5555_0000_9999)),
            (outer, inner)
        );
        assert_ne!(frames.find_or_add(inner, 0x5555_0000_9999), inner, "a recursion");
        frames.add(inner, 100.4, 2.5);
        frames.add(0, 1.0, 1.0);
        let [_, bytes, blocks] = &frames.0[inner as usize - 1];
        assert_eq!((bytes.load(Relaxed), blocks.load(Relaxed)), (100, 640));
    }

    #[test]
    fn a_million_stacks_fill_it_and_what_is_in_it_stays() {
        let frames = empty();
        let numbers: Vec<u32> = (0..1_000_000).map(|at| frames.find_or_add(0, 0x5555_0000_0000 + at * 7)).collect();
        let kept = numbers.iter().filter(|number| **number > 0).count();
        assert!(kept > FRAMES * 9 / 10 && kept <= FRAMES, "{kept}");
        let again = |at: u64| frames.find_or_add(0, 0x5555_0000_0000 + at * 7);
        assert!((0..1000).all(|at| again(at) == numbers[at as usize]));
    }
}
