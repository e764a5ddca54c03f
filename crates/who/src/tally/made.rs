//! The record of a live block in 16 bytes, because there are millions: its size, its stack or thread, and the number of the event that made
//! it. Whether the block was short-lived follows from this number and the events of the last millisecond.

use std::collections::VecDeque;

use super::SHORT_NANOS;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedBlock {
    of: u32,
    /// Bits 0 to 31 of the size and of the event's number; bits 32 to 47 are separate.
    size: u32,
    event: u32,
    high: [u16; 2],
}

/// The largest size and event number. A trace has no larger size, and this many events would take 256 TiB.
const MOST: u64 = (1 << 48) - 1;

impl PackedBlock {
    /// A block of this size, with the index of its totals, made by the event of this number.
    pub(super) fn new(size: u64, of: u32, event: u64) -> PackedBlock {
        let (size, event) = (size.min(MOST), event.min(MOST));
        PackedBlock { of, size: size as u32, event: event as u32, high: [(size >> 32) as u16, (event >> 32) as u16] }
    }

    pub(super) fn of(self) -> u32 {
        self.of
    }

    pub(super) fn size(self) -> u64 {
        u64::from(self.high[0]) << 32 | u64::from(self.size)
    }

    pub(super) fn event(self) -> u64 {
        u64::from(self.high[1]) << 32 | u64::from(self.event)
    }
}

/// The events of the last [`SHORT_NANOS`].
#[derive(Default)]
pub(super) struct Recent {
    /// Each nanosecond that has events, with the number of its first one.
    times: VecDeque<(u64, u64)>,
}

impl Recent {
    /// Notes that the event of this number happens now.
    pub(super) fn event(&mut self, nanos: u64, event: u64) {
        if self.times.back().is_some_and(|(time, _)| *time == nanos) {
            return;
        }
        self.times.push_back((nanos, event));
        while self.times.front().is_some_and(|(time, _)| nanos.saturating_sub(*time) > SHORT_NANOS) {
            self.times.pop_front();
        }
    }

    /// The number of the first recent event.
    pub(super) fn first(&self) -> u64 {
        self.times.front().map_or(0, |(_, event)| *event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_numbers() {
        assert_eq!(size_of::<PackedBlock>(), 16);
        for (size, of, event) in [(0, 0, 1), (1 << 46, u32::MAX, 1 << 33), (u64::from(u32::MAX), 7, MOST)] {
            let made = PackedBlock::new(size, of, event);
            assert_eq!((made.size(), made.of(), made.event()), (size, of, event));
        }
    }

    #[test]
    fn the_first_event_of_the_last_millisecond_is_known() {
        let mut recent = Recent::default();
        let mut first = |nanos, event| {
            recent.event(nanos, event);
            recent.first()
        };
        assert_eq!([first(5, 1), first(5, 2), first(9, 3)], [1, 1, 1]);
        assert_eq!(first(SHORT_NANOS + 5, 4), 1, "a whole millisecond is short");
        assert_eq!(first(SHORT_NANOS + 6, 5), 3);
        assert_eq!(first(9 * SHORT_NANOS, 6), 6);
    }
}
