//! Makes several copies of an allocator's structures in pairs, one right after the other, and takes the copy that differs least from the
//! other of its pair.
//!
//! A walk of a busy heap takes about 100 ms, and all its blocks can move in this time. A copy of its structures takes about 1 ms. A change
//! before the copying reaches its place is in this copy. A later change is in the next copy. So a copy differs from the state between the
//! two by at most as much as it differs from the next copy.

use std::cmp::Ordering;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{CopyMoment, CopyRoom, Memory, MemoryCopy};

/// How many pairs of copies are made. Several, because this process can be interrupted during some of them.
const PAIRS: u64 = 4;
/// How long it sleeps before each pair: the kernel seldom interrupts a process soon after it has slept.
const SLEEP: Duration = Duration::from_millis(1);
/// The most bytes of all copies together: the process that reads must stay small.
const MOST: u64 = 64 << 20;
/// Two copies are good enough if at most 1 / `FEW` of the live bytes changed between them.
const FEW: u64 = 200;
/// The bytes that one thread can have between the allocator's counts and the program, during a call in either direction.
const IN_CALL: u64 = 32 << 10;

/// All copies, of the same ranges.
pub struct Copies<'a> {
    all: Vec<TimedCopy<'a>>,
    in_calls: u64,
}

struct TimedCopy<'a> {
    copy: MemoryCopy<'a>,
    /// When the copying began, as a date; `begun` and `ended` measure how long it took.
    taken: SystemTime,
    begun: Instant,
    ended: Instant,
}

/// What was read from the copy that differs least from the next one.
#[derive(Debug)]
pub struct Steadiest<T> {
    /// The index of this copy, for [`Copies::get`].
    pub at: usize,
    pub read: T,
    /// When the copy was made, how long the copying took, and by how many live bytes it may be wrong.
    pub moment: CopyMoment,
}

/// Copies the resident pages of some ranges. `None` if they are empty, too large for two copies, or the time for reading is over.
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

/// The resident pages that overlap the ranges, in order and without duplicates.
fn resident(memory: &dyn Memory, ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let machine = memory.machine();
    let mut all: Vec<Range<u64>> = ranges
        .into_iter()
        .map(|range| machine.page_of(range.start)..machine.page_of(range.end.saturating_add(machine.page - 1)))
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
    /// The copy with this index.
    pub fn get(&self, at: usize) -> &MemoryCopy<'a> {
        &self.all[at].copy
    }

    /// Reads the copies pair by pair, first the pair that was made fastest, and takes the copy that differs least from the other of its
    /// pair. `changed` gives the live bytes that were lost or gained between the two. If these are few, the other pairs are not read.
    /// `None` if no pair can be read.
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

/// How many bytes were lost, or gained, between two lists: the larger of the two sums over all keys. Both lists are sorted by key.
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
    use crate::PAGE;
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
