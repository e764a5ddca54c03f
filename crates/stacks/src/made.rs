//! Code that belongs to no file: a runtime has made it. In: a return address, which a damaged frame may have made up. Out: its rule, if the
//! code is mapped, may be executed, and is understood.
//!
//! The bytes are copied by the kernel, which refuses what is not mapped. Data may look like code: where the bytes are a call and a function's
//! end, the mapping has to be executable too. This is read from `/proc/self/maps`; a thread remembers the last 16 mappings that were found.
//!
//! A rule is kept until all are forgotten, also if the code is unmapped. If other code then lies at the same place, and calls at the very same
//! byte, the rule is the old one's, and the word that it names need not be a return address. Where it lies in no file, the kernel copies the
//! bytes there and refuses what is not mapped. Where it lies in a file, that file's tables are read as for any frame: a library that another
//! thread closes at that very moment could go away meanwhile, which the C library cannot prevent. If the word is no address of code, the walk
//! ends there; if it is, the stack has a wrong frame.

use crate::copy::{PAGE, copy};
use crate::epilogue::{AFTER, BEFORE, rule};
use crate::mappings::for_each_mapping;
use crate::rule::Rule;
use crate::stack::Stack;

/// Mappings that a thread remembers.
const RANGES: usize = 16;

/// Addresses at which a thread finds no rule before it looks for no more: each costs a system call or two, and there may be a new one in
/// each walk.
const MOST_REFUSED: u32 = 4096;

/// What a thread keeps. All zeros is a valid state.
#[repr(C)]
pub(crate) struct Made {
    /// Mappings with code: the first address, and the one behind the last.
    ranges: [[u64; 2]; RANGES],
    /// Where the next one is kept.
    next: usize,
    refused: u32,
}

impl Made {
    /// The rule of a return address, and whether it may be kept: nothing is said of what is not mapped.
    pub(crate) fn rule(&mut self, pc: u64, stack: &mut Stack) -> Option<Rule> {
        if !(PAGE..1 << 47).contains(&pc) || stack.has(pc) || self.refused >= MOST_REFUSED {
            return None;
        }
        let found = read(pc);
        if found.is_some_and(|rule| rule != Rule::UNKNOWN) && self.is_code(pc, stack) {
            return found;
        }
        self.refused += 1;
        found.map(|_| Rule::UNKNOWN)
    }

    fn is_code(&mut self, pc: u64, stack: &mut Stack) -> bool {
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

    /// Forgets where code is, and how often there was none: a closed library may have been the reason.
    #[cold]
    pub(crate) fn forget(&mut self) {
        self.ranges = [[0; 2]; RANGES];
        self.refused = 0;
    }
}

/// The rule by the bytes around an address; none where nothing is mapped.
fn read(pc: u64) -> Option<Rule> {
    let (mut before, mut after) = ([0; BEFORE], [0; AFTER]);
    let count = copy(pc, &mut after);
    // The code may begin with its page.
    if copy(pc - BEFORE as u64, &mut before) < BEFORE {
        let of_page = BEFORE.min((pc % PAGE) as usize);
        before = [0; BEFORE];
        copy(pc - of_page as u64, &mut before[BEFORE - of_page..]);
    }
    (count > 0).then(|| rule(&before, &after[..count]))
}

#[cfg(test)]
mod tests;
