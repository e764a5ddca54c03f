//! Sorts one run. In: its records as they came. Out: the same records sorted, in another place.
//!
//! Three ways, by what is known. Where there are numbers, they are found once and sorted, each with its record's place.
//! Where only a comparison knows, records are sorted as their places; or as values where they are small and of one length,
//! which takes three quarters of that time: a comparison has both at hand. Small records of any length were tried as values
//! too, with room for the longest: no faster.

use std::ops::Range;

use super::order::{Order, Says, place_of, word};
use super::shape::Shape;

/// The most that is in one run.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// In records.
    pub records: usize,
    /// In bytes; a record of more is a run by itself.
    pub bytes: usize,
}

/// What all threads together may take while they sort.
const SCRATCH: usize = 32 << 20;
/// What one thread may take: what a processor's cache holds, or not much more.
const THREAD_SCRATCH: usize = 8 << 20;
/// The most bytes of records that are fetched in any order. Their places are numbers of 32 bits.
pub const RUN_BYTES: usize = 8 << 20;
/// The most places in a run: with std's sort, which takes as much again, 4 MiB.
const PLACES: usize = 1 << 18;

impl Most {
    /// For runs that `threads` sort side by side. The larger they are the fewer there are to merge.
    pub fn of<O: Order>(shape: Shape, threads: usize) -> Self {
        let scratch = (SCRATCH / threads).min(THREAD_SCRATCH);
        match O::NUMBER {
            // std's sort takes half of what it sorts, but up to 8 MB as much as all of it.
            Says::Nothing if is_small(shape) => {
                let bytes = if scratch < THREAD_SCRATCH { scratch } else { 2 * scratch };
                Most { records: usize::MAX, bytes }
            }
            Says::Nothing => Most { records: PLACES, bytes: RUN_BYTES },
            Says::Much | Says::All => Most { records: scratch / size_of::<u128>(), bytes: RUN_BYTES },
        }
    }
}

/// What a thread uses for run after run.
#[derive(Default)]
pub struct Scratch {
    words: Vec<u128>,
    places: Vec<(u32, u32)>,
}

/// Sorts the `records` records of `from` into `to`.
pub fn sort_run<O: Order>(shape: Shape, order: &O, records: usize, from: &[u8], to: &mut [u8], scratch: &mut Scratch) {
    match O::NUMBER {
        Says::Nothing if is_small(shape) => {
            to.copy_from_slice(from);
            sort_values(shape, order, to);
        }
        // One record, see `Most::bytes`. It may be of 4 GiB and more, where no place of 32 bits ends.
        _ if from.len() > RUN_BYTES => to.copy_from_slice(from),
        Says::Nothing => sort_places(shape, order, from, to, with_room(&mut scratch.places, records)),
        Says::Much | Says::All => sort_words(shape, order, from, to, with_room(&mut scratch.words, records)),
    }
}

/// The list, empty and with room for exactly so many: one that is pushed to has room for up to twice as many. What is too
/// small goes before the larger comes: both would be more than one thread may take.
fn with_room<T>(list: &mut Vec<T>, items: usize) -> &mut Vec<T> {
    list.clear();
    if list.capacity() < items {
        *list = Vec::new();
        list.reserve_exact(items);
    }
    list
}

/// Whether [`sort_values`] can.
fn is_small(shape: Shape) -> bool {
    matches!(shape, Shape::Fixed(8 | 16 | 24 | 32))
}

fn sort_values<O: Order>(shape: Shape, order: &O, records: &mut [u8]) {
    fn sort<const LENGTH: usize>(order: &impl Order, records: &mut [u8]) {
        records.as_chunks_mut::<LENGTH>().0.sort_by(|a, b| order.tie(a, b));
    }
    match shape {
        Shape::Fixed(8) => sort::<8>(order, records),
        Shape::Fixed(16) => sort::<16>(order, records),
        Shape::Fixed(24) => sort::<24>(order, records),
        Shape::Fixed(32) => sort::<32>(order, records),
        _ => unreachable!("`is_small` says which lengths there are, not {shape:?}"),
    }
}

fn sort_places<O: Order>(shape: Shape, order: &O, from: &[u8], to: &mut [u8], places: &mut Vec<(u32, u32)>) {
    assert!(u32::try_from(from.len()).is_ok(), "places are numbers of 32 bits, and the run has {} bytes", from.len());
    let mut at = 0;
    while at < from.len() {
        let place = shape.place(from, at);
        // Both ends, so that no comparison reads a length: a fifth less time.
        places.push((place.start as u32, place.end as u32));
        at = place.end;
    }
    let record = |&(start, end): &(u32, u32)| &from[start as usize..end as usize];
    places.sort_by(|a, b| order.tie(record(a), record(b)));
    let with_head = |place: &(u32, u32)| {
        let head = shape.head(record(place).len()).1;
        place.0 as usize - head..place.1 as usize
    };
    gather(from, to, places.iter().map(with_head));
}

fn sort_words<O: Order>(shape: Shape, order: &O, from: &[u8], to: &mut [u8], words: &mut Vec<u128>) {
    let mut at = 0;
    while at < from.len() {
        let place = shape.place(from, at);
        words.push(word(order.number(&from[place.start..place.end]), at));
        at = place.end;
    }
    words.sort_unstable();
    if O::NUMBER == Says::Much {
        // Afterwards, and not in one: few numbers are equal, and words alone sort nearly twice as fast.
        let record = |word: &u128| shape.record(from, place_of(*word));
        for equal in words.chunk_by_mut(|a, b| a >> 64 == b >> 64) {
            // Unstable, since a stable one would take as much memory again; the place keeps the order.
            equal.sort_unstable_by(|a, b| order.tie(record(a), record(b)).then(a.cmp(b)));
        }
    }
    gather(from, to, words.iter().map(|word| place_of(*word)..shape.place(from, place_of(*word)).end));
}

/// Copies what `ranges` of `from` hold to `to`, one behind the other.
fn gather(from: &[u8], to: &mut [u8], ranges: impl Iterator<Item = Range<usize>>) {
    let mut filled = 0;
    for range in ranges {
        let end = filled + range.len();
        to[filled..end].copy_from_slice(&from[range]);
        filled = end;
    }
    assert_eq!(filled, to.len(), "a sorted run has as many bytes as it had");
}

#[cfg(test)]
mod tests {
    use super::super::order::{ByComparison, ByNumber};
    use super::*;

    #[test]
    fn a_run_past_the_most_bytes_is_one_record_and_gets_no_place() {
        let from = vec![7; RUN_BYTES + 1];
        let shape = Shape::Fixed(from.len());
        let mut scratch = Scratch::default();
        let mut to = vec![0; from.len()];
        sort_run(shape, &ByComparison(|a: &[u8], b: &[u8]| a.cmp(b)), 1, &from, &mut to, &mut scratch);
        assert!(to == from);
        to.fill(0);
        sort_run(shape, &ByNumber(|record: &[u8]| u64::from(record[0])), 1, &from, &mut to, &mut scratch);
        assert!(to == from);
        assert_eq!((scratch.places.capacity(), scratch.words.capacity()), (0, 0));
    }

    #[test]
    #[should_panic(expected = "as many bytes as it had")]
    fn a_run_that_is_not_filled_is_not_taken_for_sorted() {
        gather(&[1, 2, 3], &mut [0; 3], [0..1, 2..3].into_iter());
    }

    #[test]
    fn a_list_has_room_for_a_run_and_no_more() {
        let mut list = vec![1_u128; 10];
        assert_eq!(with_room(&mut list, 6_711).capacity(), 6_711);
        assert_eq!(with_room(&mut list, 10).capacity(), 6_711);
        assert_eq!(with_room(&mut list, 7_000).capacity(), 7_000, "a little more, and not twice as much");
        assert!(list.is_empty());
    }
}
