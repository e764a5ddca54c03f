//! Predicts the stack of an allocation. In: the stacks and sizes of a thread's allocations. Out: the stack of the next one. The
//! prediction is right most times, because loops repeat the same calls. The trace has only the stacks that were not predicted.
//!
//! Writer and reader must have the same state. So both call [`Predictor::keep`] once for each allocation that may have a stack.

use crate::stacks::StackId;

const ENTRIES: usize = 4096;

/// The state that a thread's writer and its reader share. All zeros is its first state.
#[derive(Clone)]
#[repr(C)]
pub struct Predictor {
    /// The stack of the last allocation.
    last: StackId,
    /// For each pair of last stack and size class, the stack that followed this pair the last time.
    next: [StackId; ENTRIES],
}

impl Default for Predictor {
    fn default() -> Self {
        Predictor { last: 0, next: [0; ENTRIES] }
    }
}

/// The size class, as the format defines it.
#[inline(always)]
pub fn class_of(size: u64) -> usize {
    let code = size.div_ceil(8);
    if (1..=63).contains(&code) { code as usize } else { 64 + (64 - size.leading_zeros()) as usize }
}

/// Whether the stack of this allocation is recorded, if the stack of one allocation in `one_in` is. The choice depends on bits of the
/// address. The choice of the blocks for a rate uses other bits.
#[inline(always)]
pub fn is_chosen(address: u64, one_in: u32) -> bool {
    let hash = (address >> 3).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    one_in <= 1 || hash >> 32 < (1 << 32) / u64::from(one_in)
}

impl Predictor {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.last = 0;
        self.next.fill(0);
    }

    #[inline(always)]
    fn entry(&self, size: u64) -> usize {
        let key = u64::from(self.last) << 8 | class_of(size) as u64;
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize % ENTRIES
    }

    /// The predicted stack of the next allocation, which has this size.
    #[inline(always)]
    pub fn foretold(&self, size: u64) -> StackId {
        self.next[self.entry(size)]
    }

    /// Stores the stack that the allocation really had.
    #[inline(always)]
    pub fn keep(&mut self, size: u64, stack: StackId) {
        let entry = self.entry(size);
        self.next[entry] = stack;
        self.last = stack;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_foretold_from_its_second_turn_on() {
        let mut predictor = Predictor::default();
        // Two callers allocate the same size in turn: the last stack distinguishes them.
        let turn = [(24, 7), (24, 9), (600, 7), (1 << 20, 12), (24, 9)];
        let mut missed = [0; 4];
        for missed in &mut missed {
            for (size, stack) in turn {
                *missed += u32::from(predictor.foretold(size) != stack);
                predictor.keep(size, stack);
            }
        }
        // The first allocation of the second turn follows another stack than that of the first turn.
        assert!(missed[0] == 5 && missed[1] <= 1 && missed[2..] == [0, 0], "{missed:?}");
    }

    #[test]
    fn one_in_so_many_is_chosen() {
        let chosen = |one_in| (0..100_000_u64).filter(|at| is_chosen(0x5500_0000_0000 + at * 48, one_in)).count();
        assert_eq!((chosen(0), chosen(1)), (100_000, 100_000));
        assert!(chosen(10).abs_diff(10_000) < 500, "{}", chosen(10));
        assert!(chosen(1000).abs_diff(100) < 50, "{}", chosen(1000));
    }

    #[test]
    fn classes_are_those_of_the_format() {
        for (size, class) in [(1, 1), (8, 1), (9, 2), (504, 63), (505, 64 + 9), (0, 64), (1 << 46, 64 + 47)] {
            assert_eq!(class_of(size), class, "{size}");
        }
    }
}
