//! What comes first. In: records. Out: a number for each, and the order of two whose numbers are equal.
//!
//! Sorting and merging compare words of 128 bits: the number above, below it where the record lies (or which run it comes
//! from), so that equal records stay in the order in which they came, without a stable algorithm and its memory.

use std::cmp::Ordering;

/// An order of records.
pub trait Order: Sync {
    /// Whether the number says all, so that records with equal numbers need not be looked at.
    const WHOLE: bool;

    /// The record's number: a lower one comes first.
    fn number(&self, record: &[u8]) -> u64;

    /// The order of two records whose numbers are equal.
    fn tie(&self, a: &[u8], b: &[u8]) -> Ordering;
}

/// By a comparison: all numbers are equal.
pub struct ByComparison<F>(pub F);

impl<F: Fn(&[u8], &[u8]) -> Ordering + Sync> Order for ByComparison<F> {
    const WHOLE: bool = false;

    fn number(&self, _: &[u8]) -> u64 {
        0
    }

    fn tie(&self, a: &[u8], b: &[u8]) -> Ordering {
        (self.0)(a, b)
    }
}

/// By a number that the caller finds in the record.
pub struct ByNumber<F>(pub F);

impl<F: Fn(&[u8]) -> u64 + Sync> Order for ByNumber<F> {
    const WHOLE: bool = true;

    fn number(&self, record: &[u8]) -> u64 {
        (self.0)(record)
    }

    fn tie(&self, _: &[u8], _: &[u8]) -> Ordering {
        Ordering::Equal
    }
}

/// By the first so many bytes, as texts are ordered. The number is the first eight of them.
pub struct ByPrefix(pub usize);

impl Order for ByPrefix {
    const WHOLE: bool = false;

    fn number(&self, record: &[u8]) -> u64 {
        let mut first = [0; 8];
        let length = record.len().min(self.0).min(8);
        first[..length].copy_from_slice(&record[..length]);
        u64::from_be_bytes(first)
    }

    fn tie(&self, a: &[u8], b: &[u8]) -> Ordering {
        // From the start: a short record's missing bytes counted as zeros so far.
        a[..a.len().min(self.0)].cmp(&b[..b.len().min(self.0)])
    }
}

/// No word is greater: what a run gives when it has no more records.
pub const DONE: u128 = u128::MAX;

/// The word of a record: its number, and `place` to know it by.
#[inline]
pub fn word(number: u64, place: usize) -> u128 {
    u128::from(number) << 64 | place as u128
}

/// What [`word`] was given to know the record by.
#[inline]
pub fn place_of(word: u128) -> usize {
    word as u64 as usize
}

/// The order of two words; `record` gives the record of a place.
#[inline]
pub fn compare<'a, O: Order>(order: &O, a: u128, b: u128, record: impl Fn(usize) -> &'a [u8]) -> Ordering {
    if O::WHOLE || a >> 64 != b >> 64 || a == DONE || b == DONE {
        return a.cmp(&b);
    }
    order.tie(record(place_of(a)), record(place_of(b))).then_with(|| a.cmp(&b))
}
