//! Forecasts what `malloc_trim(0)` would give back, from the free blocks of an arena in the order of their addresses: the resident bytes of
//! the pages that it would pass to the kernel. `malloc_trim` first merges the blocks of the fast bins with their free neighbours. It does
//! not touch thread caches, nor the free ends of thread arenas.

use crate::{Memory, PageStates};

/// The bytes of the links at the start of a free block.
const HEADER: u64 = 48;
/// The bytes that stay at the end of the main arena.
const KEPT: u64 = 33;

/// The forecast.
#[derive(Debug)]
pub(super) struct Trim<'a> {
    pages: &'a PageStates,
    /// The bytes of a page.
    page: u64,
    /// The main arena is made smaller by a multiple of this.
    unit: u64,
    /// The present run of free blocks that touch each other.
    run: Option<(u64, u64)>,
    /// Resident bytes that would be given back.
    pub bytes: u64,
}

impl<'a> Trim<'a> {
    pub fn new(memory: &'a dyn Memory, unit: u64) -> Self {
        Trim { pages: memory.pages(), page: memory.machine().page, unit, run: None, bytes: 0 }
    }

    /// Adds a free block.
    pub fn free(&mut self, at: u64, size: u64) {
        match &mut self.run {
            Some((_, to)) if *to == at => *to = at + size,
            _ => {
                self.used();
                self.run = Some((at, at + size));
            }
        }
    }

    /// Ends the run of free blocks: at something that is not free, or at the end of a piece of memory.
    pub fn used(&mut self) {
        let Some((from, to)) = self.run.take() else { return };
        // A free block without room for a page behind its links is skipped.
        if to - from > self.page - 1 + HEADER {
            let first = (from + HEADER).next_multiple_of(self.page);
            self.bytes += self.pages.resident(first, to / self.page * self.page);
        }
    }

    /// Adds the free block at the end of an arena. The main arena is made smaller only if it ends at the end of the
    /// data segment.
    pub fn top(&mut self, at: u64, to: u64, shrinks: bool) {
        let from = match self.run {
            Some((from, end)) if end == at => from,
            _ => at,
        };
        if from == at {
            self.used();
        }
        self.run = None;
        if shrinks && to - from > KEPT {
            let extra = (to - from - KEPT) / self.unit * self.unit;
            self.bytes += self.pages.resident(to - extra, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;
    use crate::{Machine, PAGE};

    fn all_resident() -> FakeMemory {
        FakeMemory::of("100000-200000 rw-p 0 00:0 0 [heap]\n")
    }

    #[test]
    fn of_larger_pages_only_whole_ones_are_given_back() {
        let pages = all_resident().on(Machine { page: 0x4000, ..Machine::X86_64 });
        let given = |at, size| {
            let mut trim = Trim::new(&pages, 0x4000);
            trim.free(at, size);
            trim.used();
            trim.bytes
        };
        assert_eq!(given(0x10_0fd0, 0x1030), 0);
        assert_eq!(given(0x10_3fd0, 0x4030), 0x4000);
        assert_eq!(given(0x10_3fd0, 0x402f), 0);
        assert_eq!(given(0x10_3fe0, 0x9000), 0x4000);
        assert_eq!(given(0x10_1000, 0x8000), 0x4000);
    }

    #[test]
    fn whole_pages_behind_the_links_of_a_free_block_are_given_back() {
        let pages = all_resident();
        let given = |at, size| {
            let mut trim = Trim::new(&pages, PAGE);
            trim.free(at, size);
            trim.used();
            trim.bytes
        };
        assert_eq!(given(0x10_0fd0, 0x1030), PAGE);
        assert_eq!(given(0x10_0fe0, 0x1040), 0);
        assert_eq!(given(0x10_0fd0, 0x1020), 0);
        assert_eq!(given(0x10_0100, 0x4000), 3 * PAGE);
        assert_eq!(given(0x1f_f000, 0x8000), 0);
    }

    #[test]
    fn neighbours_are_one_block() {
        let pages = all_resident();
        let mut trim = Trim::new(&pages, PAGE);
        trim.free(0x10_0000, 0x1000);
        trim.free(0x10_1000, 0x1000);
        trim.free(0x10_2010, 0xff0);
        trim.used();
        assert_eq!(trim.bytes, PAGE);
    }

    #[test]
    fn with_huge_pages_the_main_arena_is_made_smaller_by_whole_ones() {
        let pages = all_resident();
        let given = |from: u64| {
            let mut trim = Trim::new(&pages, 4 * PAGE);
            trim.top(from, 0x10_8000, true);
            trim.bytes
        };
        assert_eq!(given(0x10_4000), 0);
        assert_eq!(given(0x10_3000), 4 * PAGE);
    }

    #[test]
    fn the_end_of_the_main_arena_keeps_its_header() {
        let pages = all_resident();
        let given = |at, shrinks| {
            let mut trim = Trim::new(&pages, PAGE);
            trim.free(0x10_0000, 0x2000);
            trim.top(at, 0x10_8000, shrinks);
            trim.bytes
        };
        assert_eq!(given(0x10_2000, true), 7 * PAGE);
        assert_eq!(given(0x10_6fe0, true), PAGE);
        assert_eq!(given(0x10_6fd0, true), PAGE + PAGE);
        assert_eq!(given(0x10_2000, false), 0);
    }
}
