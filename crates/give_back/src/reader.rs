//! A process that is about to be changed: its mappings, and the present bytes of its memory. In: a process. Out: bytes as they are now,
//! even on pages that were written a moment ago.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use allocanary_heap::{Mapping, Memory, Pages, Thread, parse_maps};
use allocanary_process::{Name, text};
use allocanary_sys::proc::files::{File, path};

use crate::Refusal;

/// The process.
#[derive(Debug)]
pub struct Reader {
    pid: u32,
    mappings: Vec<Mapping>,
    memory: fs::File,
    none: Pages,
}

impl Reader {
    /// Reads the mappings.
    #[expect(
        clippy::disallowed_methods,
        reason = "the memory of the process is written to, and only the command may do that"
    )]
    pub fn open(pid: u32) -> Result<Reader, Refusal> {
        let trouble = |what: &'static str| move |error: io::Error| Refusal::of(pid, what, error);
        let text = text(pid, Name::Maps).map_err(trouble("reading its mappings"))?;
        let mappings = parse_maps(text);
        let memory = fs::OpenOptions::new().read(true).write(true).open(path(pid, File::Mem));
        let memory = memory.map_err(trouble("opening its memory"))?;
        Ok(Reader { pid, mappings, memory, none: Pages::default() })
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
