//! Reads an allocator that is not ours. In: the name of a reader, a setting. Out: the allocator's version, and values as
//! canonical texts.

use std::fmt::{self, Write};

use allocanary_facts as allocators;

use super::value::ReadBack;
use super::{jemalloc, mimalloc, tcmalloc};

/// The functions by which an allocator can be read, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// By `mallctl`.
    Jemalloc,
    /// By `mi_option_get`.
    Mimalloc,
    /// By gperftools' `MallocExtension`.
    Tcmalloc,
    /// The allocator has no such functions.
    None,
}

impl Reader {
    /// The reader of this name.
    pub fn named(name: &[u8]) -> Reader {
        let all = [
            (allocators::jemalloc::NAME, Reader::Jemalloc),
            (allocators::mimalloc::NAME, Reader::Mimalloc),
            (allocators::tcmalloc::NAME, Reader::Tcmalloc),
        ];
        all.iter().find(|(of, _)| of.as_bytes() == name).map_or(Reader::None, |(_, reader)| *reader)
    }

    /// Writes the version that the allocator reports; nothing if it reports none.
    pub fn write_version(self, out: &mut impl Write) {
        let _: fmt::Result = match self {
            Reader::Jemalloc => jemalloc::write_version(out),
            Reader::Mimalloc => mimalloc::write_version(out),
            Reader::Tcmalloc => tcmalloc::write_version(out),
            Reader::None => Ok(()),
        };
    }

    /// Whether the reader takes locks to read a setting. At the end of the process, a thread that was stopped may hold them.
    pub fn takes_locks(self) -> bool {
        self == Reader::Tcmalloc
    }

    /// The value of a setting, if it can be read. `kind` is `flag`, `number`, `size` or `word`.
    pub fn read(self, name: &[u8], kind: &[u8]) -> Option<ReadBack<'static>> {
        let name = std::str::from_utf8(name).ok()?;
        match self {
            Reader::Jemalloc => jemalloc::read(name, kind),
            Reader::Mimalloc => mimalloc::read(name, kind),
            Reader::Tcmalloc => tcmalloc::read(name),
            Reader::None => None,
        }
    }
}
