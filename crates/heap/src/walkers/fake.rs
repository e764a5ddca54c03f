//! A process in a test: mappings and words that a test writes.

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::pages::Run;
use crate::{Check, Mapping, Memory, PAGE, Pages, State, Thread, Walk, Walker};

/// The memory of a process that never was. Pages to which nothing was written are not resident.
#[derive(Default)]
pub struct Fake {
    mappings: Vec<Mapping>,
    bytes: Vec<Vec<u8>>,
    touched: BTreeSet<u64>,
    swapped: BTreeSet<u64>,
    pages: Pages,
    /// Reads until its time is over; `None` if that is never.
    left: Cell<Option<u64>>,
    late: Cell<bool>,
    /// Its threads.
    pub threads: Vec<Thread>,
}

impl Fake {
    /// Adds a mapping behind those that are there.
    pub fn map(&mut self, from: u64, bytes: u64, writable: bool, inode: u64, name: &str) {
        let to = from + bytes;
        self.mappings.push(Mapping {
            from,
            to,
            readable: true,
            writable,
            inode,
            name: name.into(),
            ..Mapping::default()
        });
        self.bytes.push(vec![0; bytes as usize]);
    }

    /// Writes words.
    pub fn put(&mut self, at: u64, words: &[u64]) {
        for (at, word) in (at..).step_by(8).zip(words) {
            self.write(at, &word.to_le_bytes());
        }
    }

    /// Writes bytes.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let index = self.mappings.iter().position(|one| one.from <= at && at + bytes.len() as u64 <= one.to);
        let index = index.unwrap_or_else(|| panic!("{at:x} is in no mapping"));
        let from = (at - self.mappings[index].from) as usize;
        self.bytes[index][from..from + bytes.len()].copy_from_slice(bytes);
        self.touched.extend([at / PAGE, (at + bytes.len() as u64 - 1) / PAGE]);
    }

    /// Makes pages resident without writing to them.
    pub fn touch(&mut self, from: u64, to: u64) {
        self.touched.extend(from / PAGE..to.div_ceil(PAGE));
    }

    /// Puts a page in swap: it cannot be read.
    pub fn swap_out(&mut self, at: u64) {
        self.swapped.insert(at / PAGE);
    }

    /// Its time is over after so many reads.
    pub fn end_after(&self, reads: u64) {
        self.left.set(Some(reads));
        self.late.set(false);
    }

    /// Tells the states of the pages, after all has been written.
    pub fn done(mut self) -> Fake {
        self.pages = Pages::default();
        for page in &self.touched {
            let state = if self.swapped.contains(page) { State::Swapped } else { State::Resident };
            self.pages.push(Run { from: page * PAGE, to: (page + 1) * PAGE, state });
        }
        self
    }

    /// The places at which something was written.
    pub fn written(&self) -> Vec<u64> {
        let words = |page: &u64| (page * PAGE..(page + 1) * PAGE).step_by(8);
        self.touched.iter().flat_map(words).filter(|at| self.word(*at).is_some_and(|word| word != 0)).collect()
    }
}

impl Memory for Fake {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn pages(&self) -> &Pages {
        &self.pages
    }

    fn is_late(&self) -> bool {
        self.late.get()
    }

    /// Mappings that adjoin are read as one, as the kernel does.
    fn read(&self, mut at: u64, mut into: &mut [u8]) -> bool {
        if self.left.get() == Some(0) {
            self.late.set(true);
            return false;
        }
        self.left.set(self.left.get().map(|left| left - 1));
        let in_swap = |page: u64| self.swapped.contains(&page);
        let Some(end) = at.checked_add(into.len() as u64) else { return false };
        if (at / PAGE..end.div_ceil(PAGE)).any(in_swap) {
            return false;
        }
        while !into.is_empty() {
            let index = self.mappings.partition_point(|one| one.to <= at);
            let Some(from) = self.mappings.get(index).and_then(|one| at.checked_sub(one.from)) else { return false };
            let bytes = &self.bytes[index][from as usize..];
            let (now, rest) = into.split_at_mut(bytes.len().min(into.len()));
            now.copy_from_slice(&bytes[..now.len()]);
            at += now.len() as u64;
            into = rest;
        }
        true
    }
}

/// Damage: which of the written words, by what kind of value, at which of its bytes.
pub type Damage = Vec<(prop::sample::Index, u8, u64)>;

/// Draws damage of one to twelve words.
pub fn damage() -> impl Strategy<Value = Damage> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, any::<u64>()), 1..12)
}

/// Damages a heap and walks it. It may be refused; but if its figures are shown, they are right, or a warning is with them.
pub fn walk_damaged(walker: &Walker, mut fake: Fake, damage: Damage) {
    let whole = (walker.walk)(&fake).expect("a heap").expect("a walk");
    let written = fake.written();
    for (which, kind, value) in damage {
        let at = *which.get(&written);
        let word = fake.word(at).expect("it was written");
        let word = match kind {
            0 => word ^ 1 << (value % 64),
            1 => value,
            2 => fake.word(*which.get(&written[..written.len() / 2])).unwrap_or(value),
            _ => word.wrapping_add(value % 4096).wrapping_sub(2048),
        };
        fake.put(at, &[word]);
    }
    let fake = fake.done();
    let Some(Ok(walk)) = (walker.walk)(&fake) else { return };
    let taken = |walk: &Walk| walk.live + walk.cached;
    let right = taken(&walk).abs_diff(taken(&whole)) <= taken(&whole) / 50;
    let agree = |(now, before): (&Check, &Check)| now.wanted == now.found || now == before;
    let counted = walk.checks.len() == whole.checks.len() && walk.checks.iter().zip(&whole.checks).all(agree);
    assert!(right || walk.breaks > 0 || !counted, "{} became {} without a warning", taken(&whole), taken(&walk));
}
