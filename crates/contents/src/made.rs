//! The memory of a process for tests, with mappings and words that a test writes.

use std::collections::BTreeMap;

use allocanary_heap::{HeapBlock, Machine, Mapping, Memory, MemoryCopy, PAGE, PageStates, Processor, ThreadId};

use crate::blocks::Blocks;
use crate::copy::{room_for, whole};
use crate::kinds::{Kinds, TypedBlocks};
use crate::languages::Languages;
use crate::modules::ModuleList;
use crate::roots::{Root, RootKind};

/// The memory of a process for tests.
#[derive(Default)]
pub struct FakeHeap {
    mappings: Vec<Mapping>,
    pages: PageStates,
    bytes: BTreeMap<u64, Vec<u8>>,
}

impl FakeHeap {
    /// Makes a writable mapping for each address and length, with all pages resident.
    pub fn of(mappings: &[(u64, u64)]) -> FakeHeap {
        let maps: String =
            mappings.iter().map(|(at, bytes)| format!("{at:x}-{:x} rw-p 0 00:0 0 \n", at + bytes)).collect();
        let mut made = FakeHeap { mappings: allocanary_heap::parse_maps(&maps), ..FakeHeap::default() };
        for &(from, bytes) in mappings {
            made.pages.push(allocanary_heap::PageRun {
                from,
                to: from + bytes,
                state: allocanary_heap::PageState::Resident,
            });
            made.bytes.insert(from, vec![0; bytes as usize]);
        }
        made
    }

    /// Makes mappings from lines of `/proc/PID/maps`, without bytes.
    pub fn with_maps(maps: &str) -> FakeHeap {
        FakeHeap { mappings: allocanary_heap::parse_maps(maps), ..FakeHeap::default() }
    }

    /// Writes words.
    pub fn put(&mut self, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(at, &bytes);
    }

    /// Writes bytes.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let (from, all) = self.bytes.range_mut(..=at).next_back().expect("a mapping");
        let place = (at - from) as usize;
        all[place..place + bytes.len()].copy_from_slice(bytes);
    }

    /// Makes the mapping at an address executable.
    pub fn make_executable(&mut self, at: u64) {
        self.mappings.iter_mut().filter(|one| one.from == at).for_each(|one| one.executable = true);
    }

    /// Makes the mapping at an address a mapping of a file.
    pub fn make_file(&mut self, at: u64) {
        self.mappings.iter_mut().filter(|one| one.from == at).for_each(|one| one.inode = 1);
    }

    /// Copies the memory.
    pub fn copy(&self) -> MemoryCopy<'_> {
        whole(self, room_for(self))
    }
}

impl Memory for FakeHeap {
    fn machine(&self) -> Machine {
        Machine::X86_64
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[ThreadId] {
        &[]
    }

    fn pages(&self) -> &PageStates {
        &self.pages
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Some((from, all)) = self.bytes.range(..=at).next_back() else { return false };
        let place = (at - from) as usize;
        let Some(bytes) = all.get(place..place.saturating_add(into.len())) else { return false };
        into.copy_from_slice(bytes);
        true
    }
}

/// Blocks from addresses and lengths.
pub fn blocks(all: impl IntoIterator<Item = (u64, u64)>) -> Blocks {
    Blocks::new(all.into_iter().map(|(at, bytes)| HeapBlock { at, bytes }).collect(), Processor::X86_64)
}

/// A page of global variables.
pub fn globals(at: u64) -> Vec<Root> {
    vec![Root { place: RootKind::Global(0), from: at, to: at + PAGE, word: None }]
}

/// The kinds of blocks that are held by a page of global variables.
pub fn kinds(made: &FakeHeap, blocks: &Blocks, at: u64) -> Vec<String> {
    kinds_with(Languages { cpp: true, rust: true }, made, blocks, at)
}

/// As [`kinds`], in a process with these languages.
pub fn kinds_with(languages: Languages, made: &FakeHeap, blocks: &Blocks, at: u64) -> Vec<String> {
    let copy = made.copy();
    let (modules, roots) = (ModuleList::default(), globals(at));
    let (copy, modules, roots) = (&copy, &modules, &roots);
    let heap = TypedBlocks { copy, blocks, sample: None, modules, roots, languages, open: &|_| None };
    let kinds = Kinds::of(&heap, None);
    blocks.iter().map(|(index, _)| kinds.kind(kinds.number(index)).name.clone()).collect()
}
