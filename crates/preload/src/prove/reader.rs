//! Reads an allocator that is not ours. In: the name of a reader, a setting. Out: the allocator's version, and values as
//! canonical texts.

use std::fmt::{self, Write};

use allocanary_facts as allocators;

use super::value::ReadBack;
use super::{jemalloc, mimalloc, tcmalloc};

/// The functions by which an allocator can be read, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocatorReader {
    /// By `mallctl`.
    Jemalloc,
    /// By `mi_option_get`.
    Mimalloc,
    /// By gperftools' `MallocExtension`.
    Tcmalloc,
    /// The allocator has no such functions.
    None,
}

impl AllocatorReader {
    /// The reader of this name.
    pub fn named(name: &[u8]) -> AllocatorReader {
        let all = [
            (allocators::jemalloc::NAME, AllocatorReader::Jemalloc),
            (allocators::mimalloc::NAME, AllocatorReader::Mimalloc),
            (allocators::tcmalloc::NAME, AllocatorReader::Tcmalloc),
        ];
        all.iter().find(|(of, _)| of.as_bytes() == name).map_or(AllocatorReader::None, |(_, reader)| *reader)
    }

    /// Writes the version that the allocator reports; nothing if it reports none.
    pub fn write_version(self, out: &mut impl Write) {
        let _: fmt::Result = match self {
            AllocatorReader::Jemalloc => jemalloc::write_version(out),
            AllocatorReader::Mimalloc => mimalloc::write_version(out),
            AllocatorReader::Tcmalloc => tcmalloc::write_version(out),
            AllocatorReader::None => Ok(()),
        };
    }

    /// Whether the reader takes locks to read a setting. At the end of the process, a thread that was stopped may hold them.
    pub fn takes_locks(self) -> bool {
        self == AllocatorReader::Tcmalloc
    }

    /// The value of a setting, if it can be read. `kind` is `flag`, `number`, `size` or `word`.
    pub fn read(self, name: &[u8], kind: &[u8]) -> Option<ReadBack<'static>> {
        let name = std::str::from_utf8(name).ok()?;
        match self {
            AllocatorReader::Jemalloc => jemalloc::read(name, kind),
            AllocatorReader::Mimalloc => mimalloc::read(name, kind),
            AllocatorReader::Tcmalloc => tcmalloc::read(name),
            AllocatorReader::None => None,
        }
    }
}
