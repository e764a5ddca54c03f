//! Sorts one run. In: its records in their original order. Out: the same records sorted, in another place.
//!
//! There are three ways. If records have numbers, the numbers are computed once and sorted, each with its record's
//! place. If there is only a comparison, the places of the records are sorted. Small records of one length with only a
//! comparison are sorted as values. This takes three quarters of the time, because a comparison needs no indirection.
//! For small records of any length, sorting as values with room for the longest was tried too, and was not faster.

use std::ops::Range;

use super::order::{Order, Says, place_of, word};
use super::record_length::RecordLength;

/// The maximum size of one run.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Number of records.
    pub records: usize,
    /// Number of bytes. A larger record is a run by itself.
    pub bytes: usize,
}

/// The maximum memory of all threads while they sort, in bytes.
const SCRATCH: usize = 32 << 20;
/// The maximum memory of one thread, in bytes: about the size of a CPU's cache.
const THREAD_SCRATCH: usize = 8 << 20;
/// The maximum number of bytes of a run whose records are read in random order. Places are numbers of 32 bits.
pub const RUN_BYTES: usize = 8 << 20;
/// The maximum number of places in a run. They take 4 MiB, including the same amount for std's sort.
const PLACES: usize = 1 << 18;

impl Most {
    /// The maximum for runs that `threads` sort in parallel. Larger runs mean fewer runs to merge.
    pub fn of<O: Order>(lengths: RecordLength, threads: usize) -> Self {
        let scratch = (SCRATCH / threads).min(THREAD_SCRATCH);
        match O::NUMBER {
            // std's sort needs memory for half of its input, but up to 8 MB for all of it.
            Says::Nothing if is_small(lengths) => {
                let bytes = if scratch < THREAD_SCRATCH { scratch } else { 2 * scratch };
                Most { records: usize::MAX, bytes }
            }
            Says::Nothing => Most { records: PLACES, bytes: RUN_BYTES },
            Says::Much | Says::All => Most { records: scratch / size_of::<u128>(), bytes: RUN_BYTES },
        }
    }
}

/// The memory that a thread reuses for all its runs.
#[derive(Default)]
pub struct Scratch {
    words: Vec<u128>,
    places: Vec<(u32, u32)>,
}

/// Sorts the `records` records of `from` into `to`.
pub fn sort_run<O: Order>(
    lengths: RecordLength,
    order: &O,
    records: usize,
    from: &[u8],
    to: &mut [u8],
    scratch: &mut Scratch,
) {
    match O::NUMBER {
        Says::Nothing if is_small(lengths) => {
            to.copy_from_slice(from);
            sort_values(lengths, order, to);
        }
        // This is one record, see `Most::bytes`. It may have 4 GiB and more, so that its end does not fit a place of 32
        // bits.
        _ if from.len() > RUN_BYTES => to.copy_from_slice(from),
        Says::Nothing => sort_places(lengths, order, from, to, with_room(&mut scratch.places, records)),
        Says::Much | Says::All => sort_words(lengths, order, from, to, with_room(&mut scratch.words, records)),
    }
}

/// Empties the list and gives it room for exactly `items` items. Growth by pushing may reserve twice as many. A list
/// that is too small is freed before the larger one is allocated, because both would exceed the memory of one thread.
fn with_room<T>(list: &mut Vec<T>, items: usize) -> &mut Vec<T> {
    list.clear();
    if list.capacity() < items {
        *list = Vec::new();
        list.reserve_exact(items);
    }
    list
}

/// Whether [`sort_values`] can sort the records.
fn is_small(lengths: RecordLength) -> bool {
    matches!(lengths, RecordLength::Fixed(8 | 16 | 24 | 32))
}

fn sort_values<O: Order>(lengths: RecordLength, order: &O, records: &mut [u8]) {
    fn sort<const LENGTH: usize>(order: &impl Order, records: &mut [u8]) {
        records.as_chunks_mut::<LENGTH>().0.sort_by(|a, b| order.tie(a, b));
    }
    match lengths {
        RecordLength::Fixed(8) => sort::<8>(order, records),
        RecordLength::Fixed(16) => sort::<16>(order, records),
        RecordLength::Fixed(24) => sort::<24>(order, records),
        RecordLength::Fixed(32) => sort::<32>(order, records),
        _ => unreachable!("`is_small` says which lengths there are, not {lengths:?}"),
    }
}

fn sort_places<O: Order>(lengths: RecordLength, order: &O, from: &[u8], to: &mut [u8], places: &mut Vec<(u32, u32)>) {
    assert!(u32::try_from(from.len()).is_ok(), "places are numbers of 32 bits, and the run has {} bytes", from.len());
    let mut at = 0;
    while at < from.len() {
        let place = lengths.place(from, at);
        // The places have start and end, so that no comparison reads a length. This takes a fifth less time.
        places.push((place.start as u32, place.end as u32));
        at = place.end;
    }
    let record = |&(start, end): &(u32, u32)| &from[start as usize..end as usize];
    places.sort_by(|a, b| order.tie(record(a), record(b)));
    let with_head = |place: &(u32, u32)| {
        let head = lengths.head(record(place).len()).1;
        place.0 as usize - head..place.1 as usize
    };
    gather(from, to, places.iter().map(with_head));
}

fn sort_words<O: Order>(lengths: RecordLength, order: &O, from: &[u8], to: &mut [u8], words: &mut Vec<u128>) {
    let mut at = 0;
    while at < from.len() {
        let place = lengths.place(from, at);
        words.push(word(order.number(&from[place.start..place.end]), at));
        at = place.end;
    }
    words.sort_unstable();
    if O::NUMBER == Says::Much {
        // Equal numbers are sorted in a second step: few numbers are equal, and words alone sort nearly twice as fast.
        let record = |word: &u128| lengths.record(from, place_of(*word));
        for equal in words.chunk_by_mut(|a, b| a >> 64 == b >> 64) {
            // The sort is unstable, because a stable sort would need the same amount of memory again. The place keeps
            // the order.
            equal.sort_unstable_by(|a, b| order.tie(record(a), record(b)).then(a.cmp(b)));
        }
    }
    gather(from, to, words.iter().map(|word| place_of(*word)..lengths.place(from, place_of(*word)).end));
}

/// Copies the `ranges` of `from` to `to`, one after the other.
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
        let lengths = RecordLength::Fixed(from.len());
        let mut scratch = Scratch::default();
        let mut to = vec![0; from.len()];
        sort_run(lengths, &ByComparison(|a: &[u8], b: &[u8]| a.cmp(b)), 1, &from, &mut to, &mut scratch);
        assert!(to == from);
        to.fill(0);
        sort_run(lengths, &ByNumber(|record: &[u8]| u64::from(record[0])), 1, &from, &mut to, &mut scratch);
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
