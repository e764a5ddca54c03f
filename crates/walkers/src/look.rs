//! Reads facts from the file itself instead of from a process's memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::{Fact, Machine, elf, system};

impl Fact {
    /// Looks for the fact in a file of `bytes` bytes. The caller gives the length, because this process may have no right to ask for it.
    pub fn look_for(self, file: &File, bytes: u64) -> Option<u64> {
        let read = |at: u64, into: &mut [u8]| file.read_exact_at(into, at).is_ok();
        match self {
            Fact::Extent => elf::ElfHeader::read(&read).and_then(|header| header.extent(&read, Machine::here())),
            Fact::Release => system::release_of_file(file, bytes),
        }
    }
}
