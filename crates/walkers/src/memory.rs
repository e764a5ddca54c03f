//! The trait for memory that can be read: a live process, a core file, or the bytes of a test.

use crate::{Fact, Machine, Mapping, PageState, PageStates, Piece};

/// A thread of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId {
    /// The kernel's thread id.
    pub tid: u32,
    /// Its thread pointer (on x86-64: the base of the segment `fs`), from which its thread-local variables are found. On aarch64 it can be
    /// the head of the thread's list of robust locks, which is a little below, as far in each thread. `None` if it could not be read.
    pub pointer: Option<u64>,
}

/// The memory of a process.
pub trait Memory {
    /// The machine that it is of.
    fn machine(&self) -> Machine;

    /// The mappings, in the order of their addresses.
    fn mappings(&self) -> &[Mapping];

    /// The threads of the process.
    fn threads(&self) -> &[ThreadId];

    /// The state of each page of the mappings.
    fn pages(&self) -> &PageStates;

    /// Copies `into.len()` bytes from the address `at`. A page that was never touched reads as zeroes, and the read does not make it
    /// resident. Returns false if a byte could not be read: it is outside of the mappings, in swap or in a guard page, or the process has
    /// ended.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;

    /// Copies each piece as [`Memory::read`] does, with few system calls where possible.
    fn read_each(&self, pieces: &mut [Piece]) {
        for piece in pieces {
            piece.is_read = self.read(piece.at, &mut piece.bytes);
        }
    }

    /// Copies bytes as they are now, even if the address was in no mapping when the mappings were read. Call this only for bytes that the
    /// process has written: reading an untouched page would make it resident.
    fn read_now(&self, at: u64, into: &mut [u8]) -> bool {
        self.read(at, into)
    }

    /// Reads a fact from the file of a mapping. The outer `None` means that the file itself is not available, and the caller must read the
    /// mapped bytes.
    fn fact(&self, _mapping: &Mapping, _fact: Fact) -> Option<Option<u64>> {
        None
    }

    /// Whether the walkers also list each live block (`Layout::live`). The list costs 16 bytes a block.
    fn wants_blocks(&self) -> bool {
        false
    }

    /// Whether a read failed because the time for reading is over. From then on all reads fail, and a loop over many addresses must stop.
    fn is_late(&self) -> bool {
        false
    }

    /// The word at an address, read by [`Memory::read_now`].
    fn word_now(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read_now(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// The mapping that has the address.
    fn mapping(&self, at: u64) -> Option<&Mapping> {
        let all = self.mappings();
        let after = all.partition_point(|one| one.from <= at);
        all[..after].last().filter(|one| at < one.to)
    }

    /// How many bytes of a range are not readable: they are outside of the mappings, in mappings without the right to read, or in guard
    /// pages.
    fn unreadable(&self, from: u64, to: u64) -> u64 {
        let all = self.mappings();
        let first = all.partition_point(|one| one.to <= from);
        let within = all[first..].iter().take_while(|one| one.from < to).filter(|one| one.readable);
        let readable = |one: &Mapping| {
            let (from, to) = (one.from.max(from), one.to.min(to));
            let guards = self.pages().within(from, to).filter(|run| run.state == PageState::Guard);
            to - from - guards.map(|run| run.to - run.from).sum::<u64>()
        };
        to - from - within.map(readable).sum::<u64>()
    }

    /// The word at an address, which need not be aligned.
    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }
}
