//! A process that is about to be changed: its mappings, and the present bytes of its memory. In: a process. Out: bytes as they are now,
//! even on pages that were written a moment ago.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use allocanary_heap::{Mapping, Memory, Pages, Thread, parse_maps};
use allocanary_process::{Files, Name, Opened, text};
use allocanary_stacks::outside::{Code, Process};
use allocanary_sys::proc::files::{File, path};

use crate::Refusal;

/// The process.
#[derive(Debug)]
pub struct Reader {
    pid: u32,
    mappings: Vec<Mapping>,
    memory: fs::File,
    files: Rc<Files>,
    none: Pages,
}

impl Reader {
    /// Reads the mappings.
    pub fn open(pid: u32) -> Result<Reader, Refusal> {
        Reader::with(pid, Rc::new(Files::of(pid)))
    }

    /// Reads the mappings again. The files are those that are open.
    pub fn again(&self) -> Result<Reader, Refusal> {
        Reader::with(self.pid, self.files.clone())
    }

    fn with(pid: u32, files: Rc<Files>) -> Result<Reader, Refusal> {
        let trouble = |what: &'static str| move |error: io::Error| Refusal::of(pid, what, error);
        let text = text(pid, Name::Maps).map_err(trouble("reading its mappings"))?;
        let mappings = parse_maps(text);
        let memory = fs::OpenOptions::new().read(true).write(true).open(path(pid, File::Mem));
        let memory = memory.map_err(trouble("opening its memory"))?;
        Ok(Reader { pid, mappings, memory, files, none: Pages::default() })
    }

    /// The file of a mapping.
    pub fn file_of(&self, mapping: &Mapping) -> io::Result<Rc<Opened>> {
        self.files.get(mapping.from, mapping.to, mapping.inode)
    }

    /// Opens the files with code, and from then on no others: threads are about to be stopped, and no file system may
    /// keep them waiting.
    pub fn open_no_more(&self) {
        self.mappings.iter().filter(|one| one.executable && one.inode != 0).for_each(|one| drop(self.file_of(one)));
        self.files.stop();
    }

    /// Writes to the process.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Refusal> {
        self.memory.write_all_at(bytes, at).map_err(|error| Refusal::of(self.pid, "writing to its memory", error))
    }

    /// Reads some bytes of the process.
    pub fn bytes(&self, at: u64, count: usize) -> Result<Vec<u8>, Refusal> {
        let mut bytes = vec![0; count];
        let read = self.memory.read_exact_at(&mut bytes, at);
        read.map_err(|error| Refusal::of(self.pid, "reading its memory", error)).map(|()| bytes)
    }
}

impl Memory for Reader {
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

impl Process for Reader {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        Memory::read(self, at, into)
    }

    fn code(&self, at: u64) -> Option<Code> {
        let mapping = self.mapping(at).filter(|one| one.executable)?;
        Some(Code { from: mapping.from, to: mapping.to, offset: mapping.offset })
    }

    fn file(&self, code: &Code) -> Option<fs::File> {
        let mapping = self.mapping(code.from).filter(|one| one.inode != 0)?;
        self.file_of(mapping).ok()?.file.try_clone().ok()
    }
}
