//! The properties of a running process that affect its memory: its allocator, its memory by kind, its mappings, its environment. They are
//! parsed from texts of the kernel.

use allocanary_sys::proc::kinds::Mappings;
use allocanary_sys::proc::{Mapping, ProcStatus, parse_maps};

use super::host::Surroundings;
use super::identity::ProcessAllocators;
use super::notice::Notice;
use super::seen::ProcessTraits;
use super::variables::Variables;

/// A process.
#[derive(Clone, Debug)]
pub struct ProcessFacts {
    /// Its process ID.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// Its present command line. A program may overwrite it.
    pub command: String,
    /// Its allocators.
    pub identity: ProcessAllocators,
    /// Resident memory by kind, and the number of threads.
    pub memory: MemorySizes,
    /// Resident memory by kind of mapping; `None` if it may not be read.
    pub parts: Option<Mappings>,
    /// Its mappings.
    pub maps: Maps,
    /// The variables with which it was started, and the links of its root.
    pub variables: Variables,
    /// The settings that code has made in it, by file.
    pub notices: Vec<Notice>,
    /// Other facts that it shows.
    pub seen: ProcessTraits,
    /// Its host and container.
    pub surroundings: Surroundings,
}

/// Sizes in bytes; `None` if the kernel does not report them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySizes {
    /// Resident memory of all kinds.
    pub rss: Option<u64>,
    /// Resident memory without a file: heaps and stacks.
    pub anonymous: Option<u64>,
    /// Resident memory of files: programs and libraries.
    pub file: Option<u64>,
    /// Shared memory.
    pub shmem: Option<u64>,
    /// Number of threads.
    pub threads: Option<u64>,
}

/// A process's mappings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps {
    /// Programs and libraries, in the order of their addresses.
    pub files: Vec<MappedFile>,
    /// The size of `[heap]`, which sbrk grows.
    pub heap: u64,
    /// Writable mappings without a file: their number and size.
    pub anonymous: (usize, u64),
    /// Reserved address space without access: the number of mappings and their size.
    pub reserved: (usize, u64),
}

/// A program or library that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// Its path. The kernel adds ` (deleted)` if the file no longer exists.
    pub path: String,
    /// The first address of its first mapping with code.
    pub from: u64,
    /// The end of this mapping.
    pub to: u64,
}

impl MemorySizes {
    /// The sizes in the text of `status`.
    pub(crate) fn of(status: &ProcStatus) -> MemorySizes {
        let ProcStatus { resident, anonymous, files, shared, threads, .. } = *status;
        MemorySizes { rss: resident, anonymous, file: files, shmem: shared, threads }
    }
}

impl Maps {
    /// Parses the text of `maps`.
    pub(crate) fn parse(text: &[u8]) -> Maps {
        let mut maps = Maps::default();
        for one in parse_maps(text) {
            if one.name == "[heap]" {
                maps.heap += one.bytes();
            } else if let Some(path) = one.file() {
                let seen = maps.files.iter().any(|file| file.path == path);
                let file = || MappedFile { path: path.to_string(), from: one.from, to: one.to };
                maps.files.extend((one.executable && !seen).then(file));
            } else if one.inode == 0 && (one.name.is_empty() || one.name.starts_with("[anon")) {
                let kind = match one {
                    Mapping { writable: true, .. } => &mut maps.anonymous,
                    Mapping { readable: false, .. } => &mut maps.reserved,
                    _ => continue,
                };
                *kind = (kind.0 + 1, kind.1 + one.bytes());
            }
        }
        maps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_told_apart() {
        let maps = Maps::parse(
            b"00400000-00401000 r-xp 00000000 08:01 42 /usr/bin/my server\n\
             55d0c1000000-55d0c1020000 rw-p 00000000 00:00 0                          [heap]\n\
             55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]\n\
             7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n\
             7f0000021000-7f0004000000 ---p 00000000 00:00 0 \n\
             7f1000000000-7f1000001000 rw-p 00000000 00:00 0 [anon:pool]\n\
             7f2000000000-7f2000001000 r-xp 00000000 08:01 43 /lib/libc.so.6\n\
             7f2000001000-7f2000002000 r--p 00001000 08:01 43 /lib/libc.so.6\n\
             7f3000000000-7f3000001000 r-xp 00000000 00:00 0                          [anon:/lib/libjemalloc.so.2]\n\
             7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n",
        );
        let files: Vec<(&str, u64, u64)> = maps.files.iter().map(|file| (&*file.path, file.from, file.to)).collect();
        let libc = ("/lib/libc.so.6", 0x7f20_0000_0000, 0x7f20_0000_1000);
        assert_eq!(files, [("/usr/bin/my server", 0x40_0000, 0x40_1000), libc], "a name of memory is no file");
        assert_eq!((maps.heap, maps.anonymous, maps.reserved), (0x21000, (2, 0x22000), (1, 0x3fdf000)));
    }
}
