//! A process in a test: mappings and words that a test writes, and the mappings of which it is told in the kernel's words.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::pages::PageRun;
use crate::{Mapping, Memory, PAGE, PageState, PageStates, ThreadId, parse_maps};

/// The memory of a process that never was. What nobody wrote is zero.
#[derive(Default)]
pub struct FakeMemory {
    /// Its mappings, in the order of their addresses.
    pub mappings: Vec<Mapping>,
    /// Its threads.
    pub threads: Vec<ThreadId>,
    /// The states of its pages.
    pub pages: PageStates,
    bytes: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
    touched: BTreeSet<u64>,
    swapped: BTreeSet<u64>,
    guards: BTreeSet<u64>,
    /// Reads until its time is over; `None` if that is never.
    left: Cell<Option<u64>>,
    late: Cell<bool>,
    wants_blocks: bool,
}

impl FakeMemory {
    /// Mappings from lines of `/proc/PID/maps`. All private memory that can be written is resident.
    pub fn of(maps: &str) -> FakeMemory {
        let mappings = parse_maps(maps);
        let mut pages = PageStates::default();
        for one in mappings.iter().filter(|one| one.writable && !one.shared) {
            pages.push(PageRun { from: one.from, to: one.to, state: PageState::Resident });
        }
        FakeMemory { mappings, pages, ..FakeMemory::default() }
    }

    /// Adds a mapping behind those that are there. Its pages are resident if something is written to them, from [`FakeMemory::done`] on.
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
    }

    /// Writes words.
    pub fn put(&mut self, at: u64, words: &[u64]) {
        for (at, word) in (at..).step_by(8).zip(words) {
            self.write(at, &word.to_le_bytes());
        }
    }

    /// Writes bytes.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        assert!(self.mapping(at).is_some_and(|mapping| end <= mapping.to), "{at:x} is in no mapping");
        for (at, byte) in (at..).zip(bytes) {
            let page = self.bytes.entry(at / PAGE).or_insert_with(|| Box::new([0; PAGE as usize]));
            page[(at % PAGE) as usize] = *byte;
        }
        self.touched.extend([at / PAGE, (end - 1) / PAGE]);
    }

    /// Makes pages resident without writing to them.
    pub fn touch(&mut self, from: u64, to: u64) {
        self.touched.extend(from / PAGE..to.div_ceil(PAGE));
    }

    /// Puts a page in swap: it cannot be read.
    pub fn swap_out(&mut self, at: u64) {
        self.swapped.insert(at / PAGE);
    }

    /// Puts a guard in the place of a page: it cannot be read, and has no memory.
    pub fn guard(&mut self, at: u64) {
        self.guards.insert(at / PAGE);
        self.touched.insert(at / PAGE);
    }

    /// Takes all rights of pages away, as `mprotect` does: their mapping becomes two or three.
    pub fn protect(&mut self, from: u64, to: u64) {
        let of = |one: &Mapping, from, to| (from < to).then(|| Mapping { from, to, ..one.clone() });
        let split = |one: Mapping| {
            let (low, high) = (from.clamp(one.from, one.to), to.clamp(one.from, one.to));
            let closed = of(&one, low, high).map(|inner| Mapping { readable: false, writable: false, ..inner });
            [of(&one, one.from, low), closed, of(&one, high, one.to)]
        };
        self.mappings = std::mem::take(&mut self.mappings).into_iter().flat_map(split).flatten().collect();
    }

    /// Its time is over after so many reads.
    pub fn end_after(&self, reads: u64) {
        self.left.set(Some(reads));
        self.late.set(false);
    }

    /// Who reads it wants each live block.
    pub fn wanting_blocks(self) -> FakeMemory {
        FakeMemory { wants_blocks: true, ..self }
    }

    /// Tells the states of the pages, after all has been written.
    pub fn done(mut self) -> FakeMemory {
        self.pages = PageStates::default();
        for page in &self.touched {
            let state = match page {
                page if self.guards.contains(page) => PageState::Guard,
                page if self.swapped.contains(page) => PageState::Swapped,
                _ => PageState::Resident,
            };
            self.pages.push(PageRun { from: page * PAGE, to: (page + 1) * PAGE, state });
        }
        self
    }

    /// The places at which something was written.
    pub fn written(&self) -> Vec<u64> {
        let words = |page: &u64| (page * PAGE..(page + 1) * PAGE).step_by(8);
        self.touched.iter().flat_map(words).filter(|at| self.word(*at).is_some_and(|word| word != 0)).collect()
    }
}

impl Memory for FakeMemory {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[ThreadId] {
        &self.threads
    }

    fn pages(&self) -> &PageStates {
        &self.pages
    }

    fn is_late(&self) -> bool {
        self.late.get()
    }

    fn wants_blocks(&self) -> bool {
        self.wants_blocks
    }

    fn read_now(&self, at: u64, into: &mut [u8]) -> bool {
        let byte = |at: u64| Some(self.bytes.get(&(at / PAGE))?[(at % PAGE) as usize]);
        let mut all = (at..).zip(into);
        all.all(|(at, into)| byte(at).map(|byte| *into = byte).is_some())
    }

    /// Mappings that adjoin are read as one, as the kernel does.
    fn read(&self, mut at: u64, mut into: &mut [u8]) -> bool {
        if self.left.get() == Some(0) {
            self.late.set(true);
            return false;
        }
        self.left.set(self.left.get().map(|left| left - 1));
        let is_closed = |page: u64| self.swapped.contains(&page) || self.guards.contains(&page);
        let Some(end) = at.checked_add(into.len() as u64) else { return false };
        if (at / PAGE..end.div_ceil(PAGE)).any(is_closed) {
            return false;
        }
        while !into.is_empty() {
            if !self.mapping(at).is_some_and(|one| one.readable) {
                return false;
            }
            let within = (at % PAGE) as usize;
            let (now, rest) = into.split_at_mut(into.len().min(PAGE as usize - within));
            match self.bytes.get(&(at / PAGE)) {
                Some(page) => now.copy_from_slice(&page[within..within + now.len()]),
                None => now.fill(0),
            }
            at += now.len() as u64;
            into = rest;
        }
        true
    }
}
