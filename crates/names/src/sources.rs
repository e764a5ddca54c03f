//! Opens the files that have the names of a module, or says why a file is not used. The files of a trace are those of this host. The files
//! of a process are those that it has mapped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use allocanary_process::elf::{self, Elf};
use allocanary_process::{BrokerRequest, Opened, ProcessFiles, file, file_of};
use allocanary_trace::stacks::TraceModule;

/// The files of modules.
pub trait Sources {
    /// The file of a module.
    fn file(&self, module: &TraceModule) -> Result<Rc<Opened>, String>;

    /// The debug file of a build.
    fn debug(&self, build_id: &[u8]) -> Option<Rc<Opened>>;
}

/// The files of this host that a trace names.
pub(crate) struct OfTrace {
    /// The folder with debug files.
    pub debug: PathBuf,
}

impl Sources for OfTrace {
    fn file(&self, module: &TraceModule) -> Result<Rc<Opened>, String> {
        let path = module.path.strip_suffix(" (deleted)").unwrap_or(&module.path);
        file::named(Path::new(path)).map(Rc::new).map_err(|error| error.to_string())
    }

    fn debug(&self, build_id: &[u8]) -> Option<Rc<Opened>> {
        file::debug(&self.debug, build_id).map(Rc::new).ok()
    }
}

/// The files that a process has mapped.
pub struct OfProcess {
    files: ProcessFiles,
    /// For the first mapping of each module: its first address, its end and the inode of its file.
    mappings: BTreeMap<u64, (u64, u64)>,
}

impl OfProcess {
    /// For a process, with the first mapping of each module: first address, end, inode.
    pub fn new(pid: u32, mappings: impl Iterator<Item = (u64, u64, u64)>) -> OfProcess {
        OfProcess {
            files: ProcessFiles::of(pid),
            mappings: mappings.map(|(from, to, inode)| (from, (to, inode))).collect(),
        }
    }
}

impl Sources for OfProcess {
    fn file(&self, module: &TraceModule) -> Result<Rc<Opened>, String> {
        let (to, inode) = self.mappings.get(&module.start).ok_or("it is not mapped")?;
        self.files.get(module.start, *to, *inode).map_err(|error| error.to_string())
    }

    fn debug(&self, build_id: &[u8]) -> Option<Rc<Opened>> {
        debug_file(build_id)
    }
}

/// The debug file of a build, if this host has one.
pub fn debug_file(build_id: &[u8]) -> Option<Rc<Opened>> {
    let file = file_of(&BrokerRequest::Debug(build_id.to_vec())).ok()?;
    let is_same = Elf::of(&elf::cache(&file)).is_some_and(|elf| elf.build_id() == build_id);
    is_same.then(|| Rc::new(file))
}
