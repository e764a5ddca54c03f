//! Code that belongs to no file, because a runtime has made it. In: a return address, which may come from a damaged frame. Out: its rule,
//! if the code is mapped, executable, and understood.
//!
//! The kernel copies the bytes, and refuses unmapped memory. Data may look like code. So a call before the address and the end of a
//! function after it are not enough: the mapping must be executable too. `/proc/self/maps` says whether it is. A thread remembers the last
//! 16 mappings that it found.
//!
//! A rule is kept until all rules are forgotten, even if the code is unmapped. Other code may later be at the same place, with a call at
//! exactly the same byte. This code then gets the rule of the old code, and the word that the rule names may not be a return address. If
//! the word points into no file, the kernel copies the bytes there and refuses unmapped memory. If it points into a file, the tables of
//! this file are read as for any frame. Another thread could close this library at the same moment, which the C library cannot prevent. If
//! the word is not an address of code, the walk ends. If it is, the stack has a wrong frame.

use crate::copy::{ADDRESSES, PAGE, copy};
use crate::epilogue::{AFTER, BEFORE, rule};
use crate::mappings::for_each_mapping;
use crate::rule::Rule;
use crate::stack::StackBounds;

/// The number of mappings that a thread remembers.
const RANGES: usize = 16;

/// After this many addresses without a rule, a thread stops looking for rules. Each attempt costs one or two system
/// calls, and each walk may meet a new address.
const MOST_REFUSED: u32 = 4096;

/// The state of a thread. All zeros is a valid state.
#[repr(C)]
pub(crate) struct Made {
    /// Mappings with code: the first address, and the end.
    ranges: [[u64; 2]; RANGES],
    /// The index at which the next mapping is stored.
    next: usize,
    refused: u32,
}

impl Made {
    /// The rule of a return address, if it has one and the rule may be kept. `None` for unmapped memory.
    pub(crate) fn rule(&mut self, pc: u64, stack: &mut StackBounds) -> Option<Rule> {
        if !(PAGE..ADDRESSES).contains(&pc) || stack.has(pc) || self.refused >= MOST_REFUSED {
            return None;
        }
        let found = read(pc);
        if found.is_some_and(|rule| rule != Rule::UNKNOWN) && self.is_code(pc, stack) {
            return found;
        }
        self.refused += 1;
        found.map(|_| Rule::UNKNOWN)
    }

    fn is_code(&mut self, pc: u64, stack: &mut StackBounds) -> bool {
        let is_in = |range: &[u64; 2]| (range[0]..range[1]).contains(&pc);
        if self.ranges.iter().any(is_in) {
            return true;
        }
        let mut found = None;
        for_each_mapping(stack.buffer(), |mapping| {
            let range = [mapping.low, mapping.high];
            if mapping.is_executable && is_in(&range) {
                found = Some(range);
            }
        });
        if let Some(range) = found {
            self.ranges[self.next % RANGES] = range;
            self.next = (self.next + 1) % RANGES;
        }
        found.is_some()
    }

    /// Forgets the mappings, and the count of addresses without a rule, because these addresses may have been in a library that is now
    /// closed.
    #[cold]
    pub(crate) fn forget(&mut self) {
        self.ranges = [[0; 2]; RANGES];
        self.refused = 0;
    }
}

/// The rule of an address by the bytes around it; `None` if these are not mapped.
fn read(pc: u64) -> Option<Rule> {
    let (mut before, mut after) = ([0; BEFORE], [0; AFTER]);
    let count = copy(pc, &mut after);
    // The code may begin at the start of its page, and the page before may be unmapped.
    if copy(pc - BEFORE as u64, &mut before) < BEFORE {
        let of_page = BEFORE.min((pc % PAGE) as usize);
        before = [0; BEFORE];
        copy(pc - of_page as u64, &mut before[BEFORE - of_page..]);
    }
    (count > 0).then(|| rule(&before, &after[..count]))
}

#[cfg(test)]
mod tests;
