//! Reads and writes the memory of a process that is about to be changed. It reads the present bytes, even on pages that were written a
//! moment ago.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use allocanary_heap::{Machine, Mapping, Memory, PageStates, ThreadId, parse_maps};
use allocanary_process::{ProcFile, text};
use allocanary_sys::proc::files::{ProcEntry, path};

use crate::give_back::Refusal;
use crate::give_back::name_space::is_loader;

/// A process with its mappings and its open memory.
#[derive(Debug)]
pub struct ThreadReader {
    pid: u32,
    mappings: Vec<Mapping>,
    memory: fs::File,
    none: PageStates,
}

impl ThreadReader {
    /// Reads the mappings.
    #[expect(
        clippy::disallowed_methods,
        reason = "the memory of the process is written to, and only the command may do that"
    )]
    pub fn open(pid: u32) -> Result<ThreadReader, Refusal> {
        let trouble = |what: &'static str| move |error: io::Error| Refusal::of(pid, what, error);
        let text = text(pid, ProcFile::Maps).map_err(trouble("reading its mappings"))?;
        let mappings = parse_maps(text);
        let memory = fs::OpenOptions::new().read(true).write(true).open(path(pid, ProcEntry::Mem));
        let memory = memory.map_err(trouble("opening its memory"))?;
        Ok(ThreadReader { pid, mappings, memory, none: PageStates::default() })
    }

    /// Whether these bytes are in private memory without a file. While a thread is stopped, nothing else is read or written: the file
    /// system of a mapped file may not answer. The last pages of the loader's data count too: the loader can have put the first thread's own
    /// data there. It has written to these pages, so the kernel no longer reads them from the file.
    fn is_own(&self, at: u64, count: usize) -> bool {
        let to = at.checked_add(count as u64);
        let is_own = |one: &&Mapping| !one.shared && (one.inode == 0 || one.writable && is_loader(&one.name));
        let mapping = self.mapping(at).filter(is_own);
        mapping.zip(to).is_some_and(|(one, to)| to <= one.to)
    }

    /// Writes to private memory without a file.
    pub fn write_own(&self, at: u64, bytes: &[u8]) -> Result<(), Refusal> {
        if !self.is_own(at, bytes.len()) {
            let error = io::Error::other("a thread's stack is a mapped file");
            return Err(Refusal::of(self.pid, "writing to its memory", error));
        }
        self.write(at, bytes)
    }

    /// Writes to any memory of the process, for example to memory that a call has just returned and that is in no known mapping.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Refusal> {
        self.memory.write_all_at(bytes, at).map_err(|error| Refusal::of(self.pid, "writing to its memory", error))
    }

    /// Reads some bytes of private memory without a file.
    pub fn own_bytes(&self, at: u64, count: usize) -> Result<Vec<u8>, Refusal> {
        if !self.is_own(at, count) {
            let error = io::Error::other("a thread's stack or its own data is in a mapped file");
            return Err(Refusal::of(self.pid, "reading its memory", error));
        }
        self.bytes(at, count)
    }

    /// Reads any memory of the process. Call it only while no thread is stopped, or with an address that a call has returned.
    pub fn bytes(&self, at: u64, count: usize) -> Result<Vec<u8>, Refusal> {
        let mut bytes = vec![0; count];
        let read = self.memory.read_exact_at(&mut bytes, at);
        read.map_err(|error| Refusal::of(self.pid, "reading its memory", error)).map(|()| bytes)
    }
}

impl Memory for ThreadReader {
    fn machine(&self) -> Machine {
        Machine::here()
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[ThreadId] {
        &[]
    }

    fn pages(&self) -> &PageStates {
        &self.none
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.is_own(at, into.len()) && self.memory.read_exact_at(into, at).is_ok()
    }
}
