//! Records the pages in which blocks have been. The memory needed depends on the number of separate stretches of pages: a heap of many GiB
//! has a few dozen.

use std::collections::BTreeMap;
use std::ops::Range;

/// The size of the smallest page. Larger pages are whole numbers of these.
pub const PAGE: u64 = 4096;

/// The pages in which a block has lived.
#[derive(Clone, Debug, Default)]
pub struct Ever {
    /// The first page of each stretch, and the page after its last. No two stretches touch.
    stretches: BTreeMap<u64, u64>,
    /// The stretch that was last added to.
    last: Range<u64>,
}

/// The pages of a block. A block of 0 bytes has its own address, and so a page.
pub fn pages_of(address: u64, size: u64) -> Range<u64> {
    let last = address.saturating_add(size.max(1) - 1);
    address / PAGE..last / PAGE + 1
}

impl Ever {
    /// Adds a block.
    pub fn add(&mut self, address: u64, size: u64) {
        self.add_pages(pages_of(address, size));
    }

    /// Moves all pages of another set to this one.
    pub fn join(&mut self, other: &mut Ever) {
        while let Some((start, end)) = other.stretches.pop_first() {
            self.add_pages(start..end);
        }
        other.last = 0..0;
    }

    fn add_pages(&mut self, pages: Range<u64>) {
        let Range { mut start, mut end } = pages;
        if self.last.start <= start && end <= self.last.end {
            return;
        }
        // All stretches that touch the new one are joined with it.
        while let Some((from, to)) = self.stretches.range(..=end).next_back().map(|(from, to)| (*from, *to)) {
            if to < start {
                break;
            }
            self.stretches.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.stretches.insert(start, end);
        self.last = start..end;
    }

    /// The stretches as ranges of pages of this size, in order. Two may touch, but no page is in two.
    pub fn stretches(&self, page: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let each = (page / PAGE).max(1);
        let mut until = 0;
        self.stretches.iter().filter_map(move |(start, end)| {
            let stretch = until.max(start / each)..end.div_ceil(each);
            until = until.max(stretch.end);
            (stretch.start < stretch.end).then_some(stretch)
        })
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_touch_are_one() {
        let mut ever = Ever::default();
        let all = |ever: &Ever| ever.stretches(PAGE).collect::<Vec<_>>();
        ever.add(0x1000, 1);
        ever.add(0x5000, 4096);
        ever.add(0x5000, 4097);
        assert_eq!(all(&ever), [1..2, 5..7]);
        ever.add(0x1fff, 2);
        assert_eq!(all(&ever), [1..3, 5..7]);
        ever.add(0x3000, 0);
        assert_eq!(all(&ever), [1..4, 5..7], "a block of no bytes has a page");
        ever.add(0x4fff, 1);
        assert_eq!(all(&ever), [1..7]);
        ever.add(u64::MAX - 1, 100);
        assert_eq!(ever.stretches(PAGE).count(), 2, "an address of a damaged trace");
        ever.add(0, 1 << 40);
        assert_eq!(ever.stretches(PAGE).next(), Some(0..1 << 28));
        let mut other = Ever::default();
        other.add(0x2000, 1);
        let mut ever = Ever::default();
        ever.add(0x1000, 1);
        ever.add(0x9000, 1);
        ever.join(&mut other);
        other.add(0x2000, 1);
        assert_eq!((all(&ever), all(&other)), (vec![1..3, 9..10], vec![2..3]), "what was joined can be added again");
    }

    #[test]
    fn a_large_page_is_in_one_stretch_only() {
        let mut ever = Ever::default();
        for small in [1, 3, 6, 12, 13] {
            ever.add(small * PAGE, 1);
        }
        ever.add(15 * PAGE, 2 * PAGE);
        assert_eq!(ever.stretches(4 * PAGE).collect::<Vec<_>>(), [0..1, 1..2, 3..4, 4..5]);
    }
}
