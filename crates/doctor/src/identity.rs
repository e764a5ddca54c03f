//! The types for the allocators of a process, and functions for the names of its files.

use allocanary_facts::our;

use super::flavour::Flavour;

/// How certain a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Certain: found by symbols.
    Yes,
    /// Likely: found by strings, by the name of a library that cannot be read, or from the order of the mapped libraries.
    Likely,
}

/// An allocator that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessAllocator {
    /// The allocator.
    pub flavour: Flavour,
    /// The file that has it.
    pub file: String,
    /// Where and how it was found.
    pub how: String,
    /// How certain this is.
    pub sure: Certainty,
}

/// The allocators of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessAllocators {
    /// The program's own allocator.
    pub main: ProcessAllocator,
    /// The allocator of its C code, if it is another one.
    pub c: Option<ProcessAllocator>,
    /// Further remarks.
    pub notes: Vec<String>,
}

impl ProcessAllocators {
    /// The allocators of the process, the program's own first.
    pub fn flavours(&self) -> Vec<Flavour> {
        std::iter::once(self.main.flavour).chain(self.c.as_ref().map(|found| found.flavour)).collect()
    }
}

/// The last part of a path in `/proc/<pid>/maps`, without the remark that the file is deleted.
pub(crate) fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or_default()
}

/// The file name of the preload that records. It is not an allocator.
pub const RECORDER: &str = "preload-record";

/// The file name of the preload that samples. It is not an allocator either.
pub const PROFILER: &str = "preload-profile";

/// The allocator of one of our preloads, by the name of its file.
pub fn preload_of(path: &str) -> Option<&str> {
    let name = file_name(path).strip_prefix("preload-")?;
    our(name).map(|(one, _)| one.name)
}
