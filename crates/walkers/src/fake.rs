//! The memory of a process for tests. A test adds mappings and words, or gives the mappings as lines of `/proc/PID/maps`.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::pages::PageRun;
use crate::{Machine, Mapping, Memory, PAGE, PageState, PageStates, ThreadId, parse_maps};

/// The memory of a process for tests. Bytes that were not written are zero.
#[derive(Default)]
pub struct FakeMemory {
    /// Its machine.
    machine: Machine,
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
    /// How many reads succeed before the time is over; `None` for no limit.
    left: Cell<Option<u64>>,
    late: Cell<bool>,
    wants_blocks: bool,
}

impl FakeMemory {
    /// Makes mappings from lines of `/proc/PID/maps`. All private writable memory is resident.
    pub fn of(maps: &str) -> FakeMemory {
        let mappings = parse_maps(maps);
        let mut pages = PageStates::default();
        for one in mappings.iter().filter(|one| one.writable && !one.shared) {
            pages.push(PageRun { from: one.from, to: one.to, state: PageState::Resident });
        }
        FakeMemory { mappings, pages, ..FakeMemory::default() }
    }

    /// Adds a mapping behind the last one. After [`FakeMemory::done`], the pages that were written or touched are resident.
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

    /// Puts a page in swap, so that it cannot be read.
    pub fn swap_out(&mut self, at: u64) {
        self.swapped.insert(at / PAGE);
    }

    /// Makes a page a guard: it has no memory and cannot be read.
    pub fn guard(&mut self, at: u64) {
        self.guards.insert(at / PAGE);
        self.touched.insert(at / PAGE);
    }

    /// Removes all rights of some pages, as `mprotect` does. This splits their mapping into two or three.
    pub fn protect(&mut self, from: u64, to: u64) {
        let of = |one: &Mapping, from, to| (from < to).then(|| Mapping { from, to, ..one.clone() });
        let split = |one: Mapping| {
            let (low, high) = (from.clamp(one.from, one.to), to.clamp(one.from, one.to));
            let closed = of(&one, low, high).map(|inner| Mapping { readable: false, writable: false, ..inner });
            [of(&one, one.from, low), closed, of(&one, high, one.to)]
        };
        self.mappings = std::mem::take(&mut self.mappings).into_iter().flat_map(split).flatten().collect();
    }

    /// After this many reads, all reads fail because the time is over.
    pub fn end_after(&self, reads: u64) {
        self.left.set(Some(reads));
        self.late.set(false);
    }

    /// The same of a machine.
    pub fn on(self, machine: Machine) -> FakeMemory {
        FakeMemory { machine, ..self }
    }

    /// Makes [`Memory::wants_blocks`] true.
    pub fn wanting_blocks(self) -> FakeMemory {
        FakeMemory { wants_blocks: true, ..self }
    }

    /// Computes the states of the pages. Call it after the last write.
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

    /// The addresses of the words that are not zero.
    pub fn written(&self) -> Vec<u64> {
        let words = |page: &u64| (page * PAGE..(page + 1) * PAGE).step_by(8);
        self.touched.iter().flat_map(words).filter(|at| self.word(*at).is_some_and(|word| word != 0)).collect()
    }
}

impl Memory for FakeMemory {
    fn machine(&self) -> Machine {
        self.machine
    }

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

    /// One read can span adjacent mappings, as with the kernel.
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
