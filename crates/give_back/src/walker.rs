//! Reads the files and the stacks of a process in which a thread is about to be borrowed. In: a process. Out: stacks, and
//! bytes of its code.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use allocanary_heap::{Mapping, Memory, Pages, Thread, parse_maps};
use allocanary_process::{Files, Name, Opened, open, text};
use allocanary_stacks::outside::{Code, Modules, Process, Stack};
use allocanary_stacks::walk::Registers;

/// The process, with the files that were opened, and the unwind tables that were read.
#[derive(Debug)]
pub struct Walker {
    pub(crate) seen: Seen,
    modules: Modules,
}

/// Its memory and its files.
#[derive(Debug)]
pub(crate) struct Seen {
    mappings: Vec<Mapping>,
    memory: File,
    files: Files,
    none: Pages,
}

impl Walker {
    /// Opens the files with code of a process, and from then on no others.
    pub fn open(pid: u32) -> io::Result<Walker> {
        let (mappings, files) = (mappings(pid)?, Files::of(pid));
        let with_code = mappings.iter().filter(|one| one.executable && one.inode != 0);
        with_code.for_each(|one| drop(files.get(one.from, one.to, one.inode)));
        files.stop();
        let seen = Seen { mappings, memory: open(pid, Name::Mem)?, files, none: Pages::default() };
        Ok(Walker { seen, modules: Modules::new() })
    }

    /// Reads the mappings again.
    pub fn read_mappings(&mut self) -> io::Result<()> {
        self.seen.mappings = mappings(self.seen.files.pid())?;
        Ok(())
    }

    /// Walks the stack of a thread. Without a frame pointer (0) a walk may end early.
    pub fn walk(&mut self, from: Registers) -> Stack {
        self.modules.walk(&self.seen, from)
    }
}

fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    text(pid, Name::Maps).map(parse_maps)
}

impl Seen {
    /// The file of a mapping.
    pub fn file_of(&self, mapping: &Mapping) -> io::Result<Rc<Opened>> {
        self.files.get(mapping.from, mapping.to, mapping.inode)
    }
}

impl Memory for Seen {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &[]
    }

    fn pages(&self) -> &Pages {
        &self.none
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.memory.read_exact_at(into, at).is_ok()
    }
}

impl Process for Seen {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        Memory::read(self, at, into)
    }

    fn code(&self, at: u64) -> Option<Code> {
        let mapping = self.mapping(at).filter(|one| one.executable)?;
        Some(Code { from: mapping.from, to: mapping.to, offset: mapping.offset })
    }

    fn read_file(&self, code: &Code, at: u64, into: &mut [u8]) -> bool {
        let Some(mapping) = self.mapping(code.from).filter(|one| one.inode != 0) else { return false };
        self.file_of(mapping).is_ok_and(|opened| opened.file.read_exact_at(into, at).is_ok())
    }
}
