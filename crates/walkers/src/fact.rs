//! What a mapped file says, which is the same in each process that maps it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::{elf, system};

/// What can be asked of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// The bytes from its first segment to the end of its last one, in whole pages.
    Extent,
    /// The release of glibc that it names: 36 for 2.36.
    Release,
}

impl Fact {
    /// Looks for it in a file that has this many bytes. The reader may have no right to ask for the length itself.
    pub fn look_for(self, file: &File, bytes: u64) -> Option<u64> {
        let read = |at: u64, into: &mut [u8]| file.read_exact_at(into, at).is_ok();
        match self {
            Fact::Extent => elf::Header::read(&read).and_then(|header| header.extent(&read)),
            Fact::Release => system::release_of_file(file, bytes),
        }
    }
}
