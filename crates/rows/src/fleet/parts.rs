//! Updates the parts of an earlier reading. In: the parts, and what is resident now. Out: parts that add up to it.

use allocanary_text::parts::{PARTS, Part, Parts};

/// The order in which parts lose bytes if resident memory has decreased since the heap was read: a process gives back the first ones first.
const LEAVING: [Part; PARTS.len()] = [
    Part::FreePages,
    Part::LazyFree,
    Part::Unknown,
    Part::Files,
    Part::Shared,
    Part::Fragmentation,
    Part::Padding,
    Part::OwnMappings,
    Part::Cached,
    Part::Live,
    Part::Runtime,
    Part::Stacks,
    Part::Metadata,
];

/// The parts of an earlier reading, changed so that they add up to `resident` now. Added bytes count as unknown. Lost bytes are subtracted
/// from the parts that a process gives back first.
pub fn now(mut read: Parts, resident: u64) -> Parts {
    let mut gone = read.sum().saturating_sub(resident);
    read.add(Part::Unknown, resident.saturating_sub(read.sum()));
    for part in LEAVING {
        gone -= read.take(part, gone);
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_reading_adds_up_to_what_is_resident_now() {
        let read: Parts = [(Part::Live, 50), (Part::FreePages, 30), (Part::Files, 20)].into_iter().collect();
        assert_eq!(now(read, 100), read);
        let grown = now(read, 140);
        assert_eq!((grown.of(Part::Unknown), grown.of(Part::Live), grown.sum()), (40, 50, 140));
        let shrunk = now(read, 60);
        assert_eq!((shrunk.of(Part::FreePages), shrunk.of(Part::Files), shrunk.of(Part::Live)), (0, 10, 50));
        for resident in [0, 1, 49, 50, 51, 99, u64::MAX] {
            assert_eq!(now(read, resident).sum(), resident);
        }
    }

    #[test]
    fn every_part_leaves_at_last() {
        assert!(PARTS.iter().all(|part| LEAVING.contains(part)));
    }
}
