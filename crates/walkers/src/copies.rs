//! Copies of an allocator's structures, made one right after the other. In: a memory that changes, and ranges. Out: the copy that differs
//! least from the next one.
//!
//! A walk of a busy heap takes a hundred milliseconds, and meanwhile all of its blocks move. A copy of its structures takes about one. What
//! changes before the copy has come to it is in the copy, and what changes after that is in the next one. So a copy differs from what was
//! there between the two by at most as much as from the next one.

use std::cmp::Ordering;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{CopyMoment, CopyRoom, Memory, MemoryCopy, PAGE};

/// How many pairs of copies are made. The process that copies is interrupted during some of them.
const PAIRS: u64 = 4;
/// The sleep before a pair: who has slept is not interrupted soon.
const SLEEP: Duration = Duration::from_millis(1);
/// The most bytes of all copies together. Their reader has little memory.
const MOST: u64 = 64 << 20;
/// If at most one part in so many of the live bytes changed between two copies, they are good enough.
const FEW: u64 = 200;
/// The bytes that a thread may just have taken from the allocator's counts and not yet have given to the program, or the other way round.
const IN_CALL: u64 = 32 << 10;

/// Copies of the same ranges.
pub struct Copies<'a> {
    all: Vec<TimedCopy<'a>>,
    in_calls: u64,
}

struct TimedCopy<'a> {
    copy: MemoryCopy<'a>,
    /// When it was begun.
    taken: SystemTime,
    begun: Instant,
    ended: Instant,
}

/// What was read in the copy that differs least from the next one.
#[derive(Debug)]
pub struct Steadiest<T> {
    /// The place of the copy.
    pub at: usize,
    /// What was read.
    pub read: T,
    /// When the copy was made, how long that took, and how many live bytes may be wrong.
    pub moment: CopyMoment,
}

/// Copies the resident pages of some ranges. `None` if they are too large, or could not be copied.
pub fn copies<'a>(memory: &'a dyn Memory, ranges: impl IntoIterator<Item = Range<u64>>) -> Option<Copies<'a>> {
    let ranges = resident(memory, ranges);
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let pairs = PAIRS.min(MOST.checked_div(2 * bytes)?);
    let rooms: Vec<CopyRoom> = (0..2 * pairs).map(|_| CopyRoom::of(bytes)).collect();
    let copy = |(at, room)| {
        if at % 2 == 0 {
            std::thread::sleep(SLEEP);
        }
        let (taken, begun) = (SystemTime::now(), Instant::now());
        TimedCopy { copy: MemoryCopy::of_part(memory, &ranges, room), taken, begun, ended: Instant::now() }
    };
    let all: Vec<TimedCopy> = rooms.into_iter().enumerate().map(copy).collect();
    (!all.is_empty() && !memory.is_late()).then(|| Copies { all, in_calls: memory.threads().len() as u64 * IN_CALL })
}

/// The resident pages that have some of the ranges.
fn resident(memory: &dyn Memory, ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = ranges
        .into_iter()
        .map(|range| range.start / PAGE * PAGE..range.end.saturating_add(PAGE - 1) / PAGE * PAGE)
        .collect();
    all.sort_unstable_by_key(|range| range.start);
    let (mut merged, mut end): (Vec<Range<u64>>, u64) = (Vec::new(), 0);
    for range in all {
        let from = range.start.max(end);
        for run in memory.pages().within(from, range.end.max(from)).filter(|run| run.state.is_resident()) {
            match merged.last_mut() {
                Some(last) if last.end == run.from => last.end = run.to,
                _ => merged.push(run.from..run.to),
            }
        }
        end = end.max(range.end);
    }
    merged
}

impl<'a> Copies<'a> {
    /// The copy at a place.
    pub fn get(&self, at: usize) -> &MemoryCopy<'a> {
        &self.all[at].copy
    }

    /// Reads copies pair by pair, those first that were made fastest, and takes the one that differs least from the next one. `changed`
    /// are the live bytes that were lost or gained between two of them. If they are few, no more is read. `None` if no pair can be read.
    pub fn steadiest<T>(
        &self,
        read: impl Fn(&MemoryCopy<'a>) -> Option<T>,
        changed: impl Fn(&T, &T) -> u64,
        live: impl Fn(&T) -> u64,
    ) -> Option<Steadiest<T>> {
        let took = |at: usize| self.all[at + 1].ended - self.all[at].begun;
        let mut pairs: Vec<usize> = (0..self.all.len()).step_by(2).collect();
        pairs.sort_by_key(|at| took(*at));
        let mut best: Option<(u64, usize, T)> = None;
        for at in pairs {
            let (Some(one), Some(next)) = (read(&self.all[at].copy), read(&self.all[at + 1].copy)) else { continue };
            let changed = changed(&one, &next);
            let is_enough = changed.saturating_mul(FEW) <= live(&one);
            if best.as_ref().is_none_or(|(least, ..)| changed < *least) {
                best = Some((changed, at, one));
            }
            if is_enough {
                break;
            }
        }
        let (changed, at, read) = best?;
        let moment = CopyMoment {
            taken: self.all[at].taken.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64,
            took: (self.all[at].ended - self.all[at].begun).as_micros() as u64,
            within: changed.saturating_add(self.in_calls),
        };
        Some(Steadiest { at, read, moment })
    }
}

/// The bytes of all keys.
pub fn sum<K>(all: &[(K, u64)]) -> u64 {
    all.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
}

/// The bytes that are lost or gained from one to the other, whichever is more: of each key, in their order.
pub fn changed<K: Ord>(one: &[(K, u64)], other: &[(K, u64)]) -> u64 {
    let (mut lost, mut gained) = (0_u64, 0_u64);
    let (mut before, mut after) = (one.iter().peekable(), other.iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return lost.max(gained),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((before, _)), Some((after, _))) => before.cmp(after),
        };
        let had = if order.is_le() { before.next().map_or(0, |(_, bytes)| *bytes) } else { 0 };
        let has = if order.is_ge() { after.next().map_or(0, |(_, bytes)| *bytes) } else { 0 };
        lost = lost.saturating_add(had.saturating_sub(has));
        gained = gained.saturating_add(has.saturating_sub(had));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    fn fake() -> FakeMemory {
        let mut fake = FakeMemory::default();
        fake.map(0x10000, 0x10000, true, 0, "");
        for at in [0x10000, 0x12000, 0x13000, 0x1f000] {
            fake.put(at, &[at]);
        }
        fake.done()
    }

    #[test]
    fn only_resident_pages_are_copied_and_each_once() {
        let ranges = [0x12ff8..0x13008, 0x10100..0x10108, 0x10000..0x12001, 0x15000..0x16000];
        assert_eq!(resident(&fake(), ranges), [0x10000..0x11000, 0x12000..0x14000]);
    }

    #[test]
    fn a_copy_stays_as_it_was_and_the_rest_is_read_now() {
        let fake = fake();
        let copies = copies(&fake, [0x12000..0x13000, 0x1f000..0x20000]).unwrap();
        assert!(copies.all.iter().all(|one| one.copy.copied(0x12000) == Some(0x12000) && one.copy.missing == 0));
        let last = copies.get(copies.all.len() - 1);
        assert_eq!(
            (last.word(0x10000), last.word(0x13000), last.bytes(0x13000, 8)),
            (Some(0x10000), Some(0x13000), None)
        );
    }

    #[test]
    fn of_the_copies_the_one_is_taken_that_differs_least_from_the_next() {
        let fake = fake();
        let copies = copies(&fake, [0x12000..0x13000, 0x12800..0x12808]).unwrap();
        // Numbers for the copies, in the order in which they are read.
        let steadiest = |numbers: [Option<u64>; 8]| {
            let next = std::cell::Cell::new(0);
            let read = |_: &MemoryCopy| numbers[next.replace(next.get() + 1)];
            let found = copies.steadiest(read, |one, next| one.abs_diff(*next), |one| *one);
            (found.map(|found| (found.read, found.moment.within)), next.get())
        };
        let far = [Some(1), Some(9)];
        let of = |pairs: [[Option<u64>; 2]; 4]| pairs.concat().try_into().unwrap();
        assert_eq!(steadiest(of([far, [Some(5), Some(7)], far, [Some(5), Some(8)]])), (Some((5, 2)), 8));
        assert_eq!(steadiest(of([far, [Some(400), Some(402)], far, far])), (Some((400, 2)), 4), "it is good enough");
        assert_eq!(steadiest(of([[None, Some(9)], [Some(7), None], [None; 2], [None, Some(3)]])).0, None);
    }

    #[test]
    fn what_has_changed_is_the_most_of_what_is_lost_and_what_is_gained() {
        let one = [(1, 100), (2, 50), (4, 7)];
        assert_eq!(changed(&one, &one), 0);
        assert_eq!(changed(&one, &[(1, 90), (2, 51), (3, 5), (5, 8)]), 17);
        assert_eq!(changed(&[], &one), 157);
        assert_eq!(changed(&one, &[(2, 250)]), 200);
    }

    #[test]
    fn what_is_too_large_is_not_copied() {
        let mut fake = FakeMemory::default();
        fake.map(0x10000, MOST, true, 0, "");
        fake.touch(0x10000, 0x10000 + MOST);
        let fake = fake.done();
        let count = |bytes: u64| copies(&fake, [0x10000..0x10000 + bytes, 0..8]).map(|copies| copies.all.len());
        assert_eq!([count(MOST / 2 + PAGE), count(MOST / 2), count(PAGE), count(0)], [None, Some(2), Some(8), None]);
    }
}
