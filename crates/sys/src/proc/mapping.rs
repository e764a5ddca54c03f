//! The mappings of a process as owned values, from the text of `/proc/PID/maps`.

use super::maps::{MapsEntry, lines};

/// A mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub from: u64,
    /// The first address after it.
    pub to: u64,
    /// Whether the process may read it.
    pub readable: bool,
    /// Whether the process may write to it.
    pub writable: bool,
    /// Whether the process may execute it.
    pub executable: bool,
    /// Whether writes to it are visible to other processes.
    pub shared: bool,
    /// Its offset in its file, in bytes.
    pub offset: u64,
    /// The file's number; 0 for memory without a file.
    pub inode: u64,
    /// The file's path, or the kernel's name such as `[heap]` or `[anon:name]`; empty for memory without a name.
    pub name: String,
}

impl Mapping {
    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.to - self.from
    }

    /// The path of its file, as [`MapsEntry::file`].
    pub fn file(&self) -> Option<&str> {
        (self.inode != 0 && self.name.starts_with('/')).then_some(&self.name)
    }

    /// Whether its file is memory: from `memfd_create`, shared memory, or `/dev/zero`. Other processes may have it mapped too.
    pub fn is_memory_file(&self) -> bool {
        const BEGINNINGS: [&str; 4] = ["/memfd:", "/dev/shm/", "/dev/zero", "/SYSV"];
        self.inode != 0 && BEGINNINGS.iter().any(|begin| self.name.starts_with(begin))
    }

    /// Whether an allocator can have its blocks here: private memory that can be written and has no file behind it.
    pub fn is_heap_like(&self) -> bool {
        self.writable && self.is_anonymous()
    }

    /// Whether it is private memory without a file, with any rights. The memory of an allocator is of this kind, even where the program has
    /// removed rights from pages.
    pub fn is_anonymous(&self) -> bool {
        !self.shared && self.inode == 0 && !self.name.starts_with("[v") && !self.name.starts_with("[stack")
    }
}

/// The mappings in the text of `/proc/PID/maps`, in the order of their addresses. A mapping that grew while the kernel wrote the text can
/// be there twice. So lines that overlap become one mapping, with the rights and the name of the last line.
pub fn parse_maps(text: impl AsRef<[u8]>) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = Vec::new();
    for mut mapping in lines(text.as_ref()).map(Mapping::from) {
        while let Some(last) = all.pop_if(|last| mapping.from < last.to && last.from < mapping.to) {
            mapping.from = mapping.from.min(last.from);
            mapping.to = mapping.to.max(last.to);
        }
        all.push(mapping);
    }
    all
}

impl From<MapsEntry<'_>> for Mapping {
    fn from(line: MapsEntry<'_>) -> Mapping {
        let MapsEntry { from, to, readable, writable, executable, shared, offset, inode, name } = line;
        let name = String::from_utf8_lossy(name).into_owned();
        Mapping { from, to, readable, writable, executable, shared, offset, inode, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_that_is_told_twice_because_it_grew_is_one() {
        let text = "1000-3000 rw-p 0 00:0 0 [heap]\n1000-5000 rw-p 0 00:0 0 [heap]\n8000-9000 rw-p 0 00:0 0 \n\
                    8800-a000 rw-p 0 00:0 0 \n";
        let ranges: Vec<_> = parse_maps(text).iter().map(|one| (one.from, one.to)).collect();
        assert_eq!(ranges, [(0x1000, 0x5000), (0x8000, 0xa000)]);
    }

    #[test]
    fn a_line_with_and_without_a_name() {
        let text = "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a b (deleted)\n7f00-8f00 rw-p 00000000 00:00 0 \nnonsense\n";
        let found = parse_maps(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].from, found[0].to, found[0].offset, found[0].inode), (0x400000, 0x452000, 0x1000, 173521));
        assert_eq!(found[0].name, "/usr/bin/a b (deleted)");
        assert!(found[0].readable && found[0].executable && !found[0].writable && !found[0].is_heap_like());
        assert!(found[1].is_heap_like() && found[1].name.is_empty() && found[1].bytes() == 0x1000);
    }

    #[test]
    fn memory_without_rights_is_anonymous_and_a_stack_or_a_file_is_not() {
        let text = "1000-2000 ---p 0 00:0 0 [heap]\n2000-3000 rw-p 0 00:0 0 [stack]\n3000-4000 rw-p 0 08:02 7 /a\n\
                    4000-5000 rw-s 0 00:0 0 \n";
        let is = parse_maps(text).iter().map(|one| (one.is_anonymous(), one.is_heap_like())).collect::<Vec<_>>();
        assert_eq!(is, [(true, false), (false, false), (false, false), (false, false)]);
    }
}
