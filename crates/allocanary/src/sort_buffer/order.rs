//! The order of records. In: records. Out: a number for each, and the order of two records with equal numbers.
//!
//! Sorting by numbers, and merging, compare words of 128 bits. The upper half is the number, the lower half the place
//! of the record, so that equal records keep their order without the memory of a stable algorithm.

use std::cmp::Ordering;

/// How far a record's number determines its order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// The number is equal for all records.
    Nothing,
    /// The number decides the order, unless two numbers are equal. Then the records are compared.
    Much,
    /// The number decides the order. No record is read to compare it.
    All,
}

/// An order of records.
pub trait Order: Sync {
    /// How far the numbers determine the order.
    const NUMBER: Says;

    /// The record's number. Lower numbers come first.
    fn number(&self, record: &[u8]) -> u64;

    /// The order of two records with equal numbers.
    fn tie(&self, a: &[u8], b: &[u8]) -> Ordering;
}

/// The order of a comparison that the caller gives.
pub struct ByComparison<F>(pub F);

impl<F: Fn(&[u8], &[u8]) -> Ordering + Sync> Order for ByComparison<F> {
    const NUMBER: Says = Says::Nothing;

    fn number(&self, _: &[u8]) -> u64 {
        0
    }

    fn tie(&self, a: &[u8], b: &[u8]) -> Ordering {
        (self.0)(a, b)
    }
}

/// The order of a number that the caller finds in the record.
pub struct ByNumber<F>(pub F);

impl<F: Fn(&[u8]) -> u64 + Sync> Order for ByNumber<F> {
    const NUMBER: Says = Says::All;

    fn number(&self, record: &[u8]) -> u64 {
        (self.0)(record)
    }

    fn tie(&self, _: &[u8], _: &[u8]) -> Ordering {
        Ordering::Equal
    }
}

/// The lexicographic order of the first N bytes. The number is the first eight of them.
pub struct ByPrefix(pub usize);

impl Order for ByPrefix {
    const NUMBER: Says = Says::Much;

    fn number(&self, record: &[u8]) -> u64 {
        let mut first = [0; 8];
        let length = record.len().min(self.0).min(8);
        first[..length].copy_from_slice(&record[..length]);
        u64::from_be_bytes(first)
    }

    fn tie(&self, a: &[u8], b: &[u8]) -> Ordering {
        // Compares from the start, because the number treats a short record's missing bytes as zeros.
        a[..a.len().min(self.0)].cmp(&b[..b.len().min(self.0)])
    }
}

/// The greatest word. A run without further records has it as its entry.
pub const DONE: u128 = u128::MAX;

/// The word of a record: its number, and its `place` to identify it.
#[inline]
pub fn word(number: u64, place: usize) -> u128 {
    u128::from(number) << 64 | place as u128
}

/// The place that was given to [`word`].
#[inline]
pub fn place_of(word: u128) -> usize {
    word as u64 as usize
}

/// Whether the first of two words comes first. `record` returns the record at a place.
#[inline(always)] // a call for each match of a tournament costs as much as the match
pub fn comes_first<'a, O: Order>(order: &O, a: u128, b: u128, record: impl Fn(usize) -> &'a [u8]) -> bool {
    let by_word = a < b;
    let by_number = O::NUMBER == Says::All || (O::NUMBER == Says::Much && a >> 64 != b >> 64);
    if by_number || a == DONE || b == DONE {
        return by_word;
    }
    // Less is -1, equal 0, greater 1. This form compiles without a jump, which would be mispredicted half of the time.
    (order.tie(record(place_of(a)), record(place_of(b))) as i8) < i8::from(by_word)
}

/// [`comes_first`] for std's sort. No two words are equal.
#[inline]
pub fn compare<'a, O: Order>(order: &O, a: u128, b: u128, record: impl Fn(usize) -> &'a [u8]) -> Ordering {
    if comes_first(order, a, b, record) { Ordering::Less } else { Ordering::Greater }
}
