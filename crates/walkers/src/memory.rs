//! The contract of what can be read: a live process, a core file, or bytes in a test.

use crate::{Fact, Mapping, PageState, PageStates, Piece};

/// A thread of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId {
    /// Its number in the kernel.
    pub tid: u32,
    /// Its thread pointer (on x86-64: the base of the segment `fs`), from which its thread-local variables are found. `None` if
    /// it could not be read.
    pub pointer: Option<u64>,
}

/// The memory of a process.
pub trait Memory {
    /// The mappings in the order of their addresses.
    fn mappings(&self) -> &[Mapping];

    /// The threads.
    fn threads(&self) -> &[ThreadId];

    /// What the kernel holds for each page of the mappings.
    fn pages(&self) -> &PageStates;

    /// Copies `into.len()` bytes from the address `at`. A page that was never touched reads as zeroes, and is not touched by it.
    /// Returns whether all could be read: not so outside of mappings, of swapped pages and guards, or if the process has ended.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;

    /// Copies each piece, as [`Memory::read`] does, and with few calls where that is possible.
    fn read_each(&self, pieces: &mut [Piece]) {
        for piece in pieces {
            piece.is_read = self.read(piece.at, &mut piece.bytes);
        }
    }

    /// Copies bytes as they are now, even if no mapping had them when these were read: memory that has grown since. It is asked for only
    /// where the process has written something, since reading elsewhere would give it a page.
    fn read_now(&self, at: u64, into: &mut [u8]) -> bool {
        self.read(at, into)
    }

    /// What the file of a mapping says, where the file itself can be asked. `None`: what is mapped has to be read.
    fn fact(&self, _mapping: &Mapping, _fact: Fact) -> Option<Option<u64>> {
        None
    }

    /// Whether the walkers also list each live block (`Layout::live`): 16 bytes a block, for who looks into them.
    fn wants_blocks(&self) -> bool {
        false
    }

    /// Whether something was not read because the time for reading is over. From then on nothing is read, and what tries one address after
    /// the other gives up.
    fn is_late(&self) -> bool {
        false
    }

    /// The word at an address now, by [`Memory::read_now`].
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

    /// The bytes of a range that nobody may read: those outside of mappings, of mappings without the right to read, and guards.
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

    /// The word at an address, which needs not be aligned.
    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }
}
