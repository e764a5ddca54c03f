//! Reads the code and walks the stacks of a process in which a thread is about to be borrowed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use allocanary_heap::{Machine, Mapping, Memory, PageStates, ThreadId, parse_maps};
use allocanary_process::{ProcFile, ProcessFiles, open, text};
use allocanary_stacks::outside::{CodeMapping, OutsideProcess, OutsideStack, UnwindTables};
use allocanary_stacks::walk::WalkRegisters;

/// The process, with the unwind tables of its files.
#[derive(Debug)]
pub struct ProcessWalker {
    pub(crate) seen: Seen,
    modules: UnwindTables,
}

/// The memory of the process, and its files until they are closed.
#[derive(Debug)]
pub(crate) struct Seen {
    pid: u32,
    mappings: Vec<Mapping>,
    memory: File,
    files: Option<ProcessFiles>,
    none: PageStates,
}

impl ProcessWalker {
    /// Reads the unwind tables of all files with code. The files are open until [`close`](ProcessWalker::close).
    pub fn open(pid: u32) -> io::Result<ProcessWalker> {
        let (mappings, memory) = (mappings(pid)?, open(pid, ProcFile::Mem)?);
        let seen = Seen { pid, mappings, memory, files: Some(ProcessFiles::of(pid)), none: PageStates::default() };
        let mut modules = UnwindTables::new();
        seen.mappings.iter().filter_map(code).for_each(|code| modules.read(&seen, code));
        Ok(ProcessWalker { seen, modules })
    }

    /// Closes the files. Threads are about to be stopped, and no file system may keep them waiting.
    pub fn close(&mut self) {
        self.seen.files = None;
    }

    /// Reads the mappings again, because a stack grows, and its mapping with it. Code that was mapped elsewhere meanwhile has no tables.
    pub fn read_mappings(&mut self) -> io::Result<()> {
        self.seen.mappings = mappings(self.seen.pid)?;
        let all: Vec<CodeMapping> = self.seen.mappings.iter().filter_map(code).collect();
        self.modules.keep(|one| all.contains(one));
        Ok(())
    }

    /// Walks the stack of a thread. Without a frame pointer (0), or without the value of the register of return addresses, a walk may end early.
    pub fn walk(&mut self, from: WalkRegisters, back: Option<u64>) -> OutsideStack {
        self.modules.walk(&self.seen, from, back)
    }
}

fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    text(pid, ProcFile::Maps).map(parse_maps)
}

/// A mapping of a file with code.
fn code(mapping: &Mapping) -> Option<CodeMapping> {
    let code = CodeMapping { from: mapping.from, to: mapping.to, offset: mapping.offset };
    (mapping.executable && mapping.inode != 0).then_some(code)
}

impl Seen {
    /// Reads bytes of a mapping's file, from an offset. Returns how many.
    pub fn read_of_file(&self, mapping: &Mapping, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let closed = || io::Error::other("the files of the process are closed");
        let files = self.files.as_ref().ok_or_else(closed)?;
        files.get(mapping.from, mapping.to, mapping.inode)?.file.read_at(into, at)
    }
}

impl Memory for Seen {
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
        self.memory.read_exact_at(into, at).is_ok()
    }
}

impl OutsideProcess for Seen {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        Memory::read(self, at, into)
    }

    fn code(&self, at: u64) -> Option<CodeMapping> {
        let mapping = self.mapping(at).filter(|one| one.executable)?;
        Some(CodeMapping { from: mapping.from, to: mapping.to, offset: mapping.offset })
    }

    /// On aarch64 the kernel chooses how many bits an address has. The first thread's stack is close to the highest address.
    fn address_bits(&self) -> u64 {
        let highest = self.mappings.iter().map(|one| one.to).max().filter(|_| cfg!(target_arch = "aarch64"));
        highest.and_then(u64::checked_next_power_of_two).map_or(u64::MAX, |end| end - 1)
    }

    fn read_file(&self, code: &CodeMapping, at: u64, into: &mut [u8]) -> bool {
        let mapping = self.mapping(code.from).filter(|one| one.inode != 0);
        mapping.is_some_and(|one| self.read_of_file(one, at, into).is_ok_and(|read| read == into.len()))
    }
}
