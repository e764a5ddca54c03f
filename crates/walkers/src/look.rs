//! Looks into a file for what it says. In: the file. Out: a number.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::{Fact, elf, system};

impl Fact {
    /// Looks for it in a file that has this many bytes. The reader may have no right to ask for the length itself.
    pub fn look_for(self, file: &File, bytes: u64) -> Option<u64> {
        let read = |at: u64, into: &mut [u8]| file.read_exact_at(into, at).is_ok();
        match self {
            Fact::Extent => elf::ElfHeader::read(&read).and_then(|header| header.extent(&read)),
            Fact::Release => system::release_of_file(file, bytes),
        }
    }
}
