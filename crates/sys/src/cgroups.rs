//! The control groups of a process and their files: each group of a controller, from the process's own up to the root, the numbers in its
//! files, and the lowest limit.
//!
//! Version 1 (a hierarchy for each controller), version 2 (one for all) and hybrid hosts (both) are read in the same way. Nothing here
//! allocates except [`GroupFolder::path`], because a quota sets the size of an allocator before its first allocation.

use std::io::{Error, ErrorKind, Result};
use std::iter::successors;
use std::path::PathBuf;

use crate::sys::{first_number, open, read_from, read_into, try_read_into};

/// The place where Linux distributions and container runtimes mount the hierarchies.
pub const MOUNT: &str = "/sys/fs/cgroup";

/// A number from here on means "no limit": v1 writes "no limit" as the largest number of whole pages. v2 writes `max`.
const NO_LIMIT: u64 = 1 << 60;

/// Room for the longest text of a `/proc/<pid>/cgroup`.
pub type Listed = [u8; 4096];

/// The part of the kernel that limits one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// CPU time.
    Cpu,
    /// Memory.
    Memory,
    /// The number of threads and processes.
    Pids,
}

impl Controller {
    /// The name in `/proc/PID/cgroup` and in `cgroup.controllers`.
    pub const fn name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::Memory => "memory",
            Controller::Pids => "pids",
        }
    }
}

/// The control groups of a process.
#[derive(Clone, Copy, Debug)]
pub struct ControlGroups<'a> {
    listed: &'a str,
    mount: &'a str,
}

impl<'a> ControlGroups<'a> {
    /// The groups in the text `listed`, which has the form of `/proc/<pid>/cgroup`. `mount` is the folder where the
    /// hierarchies are mounted.
    pub const fn new(listed: &'a str, mount: &'a str) -> ControlGroups<'a> {
        ControlGroups { listed, mount }
    }

    /// The groups that are listed in the file `list`.
    pub fn read(list: &str, mount: &'a str, text: &'a mut Listed) -> Result<ControlGroups<'a>> {
        let listed = str::from_utf8(try_read_into(list, text)?).map_err(|_| ErrorKind::InvalidData)?;
        Ok(ControlGroups { listed, mount })
    }

    /// The groups of this process; none if they cannot be read.
    pub fn own(text: &'a mut Listed) -> ControlGroups<'a> {
        let listed = read_into("/proc/self/cgroup", text).and_then(|text| str::from_utf8(text).ok());
        ControlGroups { listed: listed.unwrap_or_default(), mount: MOUNT }
    }

    /// The groups in which `controller` may limit the process: its own and each one above it, up to the root. If both versions are in use,
    /// those of version 1 come first: a controller is in one version only.
    ///
    /// In a container the root of the mount may be the process's own group, while the path is the host's. Then the folders
    /// of the path do not exist, and the root has the container's limits.
    pub fn of(self, controller: Controller) -> impl Iterator<Item = GroupFolder<'a>> {
        let name = controller.name();
        let own = move |is_v2: bool| {
            self.listed.lines().filter_map(move |line| {
                let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                let (is_its, folders) = match is_v2 {
                    // If v1 is in use as well, v2 is mounted one folder deeper.
                    true => (controllers.is_empty(), ["", "unified"]),
                    false => (controllers.split(',').any(|one| one == name), [name, controllers]),
                };
                let path = path.trim_end_matches('/');
                is_its.then_some(GroupFolder { mount: self.mount, folders, path, is_v2 })
            })
        };
        own(false).chain(own(true)).flat_map(|own| successors(Some(own), GroupFolder::parent))
    }

    /// The lowest limit of `controller` up to the root; `None` if there is none. `v2` and `v1` are the names of the limit's file in each
    /// version.
    pub fn least(self, controller: Controller, v2: &'static str, v1: &'static str) -> Option<GroupLimit<'a>> {
        let limit = |group: GroupFolder<'a>| {
            let file = if group.is_v2 { v2 } else { v1 };
            let value = group.number(file).filter(|value| *value < NO_LIMIT)?;
            Some(GroupLimit { value, group, file })
        };
        self.of(controller).filter_map(limit).min_by_key(|limit| limit.value)
    }

    /// The lowest memory limit up to the root, in bytes.
    pub fn memory_limit(self) -> Option<GroupLimit<'a>> {
        self.least(Controller::Memory, "memory.max", "memory.limit_in_bytes")
    }

    /// The lowest limit of threads and processes up to the root.
    pub fn pids_limit(self) -> Option<GroupLimit<'a>> {
        self.least(Controller::Pids, "pids.max", "pids.max")
    }
}

/// A limit, and the file that sets it.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimit<'a> {
    /// Bytes, thousandths of a CPU, or a number of threads and processes.
    pub value: u64,
    /// The group that has the limit.
    pub group: GroupFolder<'a>,
    /// The name of the file in it.
    pub file: &'static str,
}

impl GroupLimit<'_> {
    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.group.path(self.file).unwrap_or_default()
    }
}

/// One control group.
#[derive(Clone, Copy, Debug)]
pub struct GroupFolder<'a> {
    mount: &'a str,
    /// The folders below `mount` in which its hierarchy may be mounted.
    folders: [&'a str; 2],
    path: &'a str,
    /// Whether it is of version 2.
    pub is_v2: bool,
}

impl<'a> GroupFolder<'a> {
    /// The group above it; `None` of the root.
    pub fn parent(&self) -> Option<GroupFolder<'a>> {
        Some(GroupFolder { path: &self.path[..self.path.rfind('/')?], ..*self })
    }

    /// The beginning of a file of the group.
    pub fn read<'b>(&self, file: &str, text: &'b mut [u8]) -> Result<&'b [u8]> {
        let mut length = Err(ErrorKind::NotFound.into());
        for folder in self.folders {
            length = self.read_below(folder, file, text);
            match &length {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                _ => break,
            }
        }
        length.map(|length| &text[..length])
    }

    /// The first number in a file of the group; `None` if the file has no number, such as `max`.
    pub fn number(&self, file: &str) -> Option<u64> {
        first_number(self.read(file, &mut [0; 64]).ok()?)
    }

    /// The path of a file of the group, if it exists.
    pub fn path(&self, file: &str) -> Option<PathBuf> {
        let path = |folder| PathBuf::from(self.parts(folder, file).concat());
        self.folders.into_iter().map(path).find(|path| path.exists())
    }

    /// The group's folder, if it exists.
    pub fn folder(&self) -> Option<PathBuf> {
        self.path("cgroup.procs").map(|mut file| {
            file.pop();
            file
        })
    }

    fn parts<'b>(&self, folder: &'b str, file: &'b str) -> [&'b str; 6]
    where
        'a: 'b,
    {
        [self.mount, if folder.is_empty() { "" } else { "/" }, folder, self.path, "/", file]
    }

    fn read_below(&self, folder: &str, file: &str, text: &mut [u8]) -> Result<usize> {
        // The path is on the stack, not allocated. A longer path is not read, but the groups above it are.
        let mut path = [0; 1024];
        let mut length = 0;
        for part in self.parts(folder, file) {
            let room = path.get_mut(length..length + part.len()).ok_or(ErrorKind::NotFound)?;
            room.copy_from_slice(part.as_bytes());
            length += part.len();
        }
        let path = std::ffi::CStr::from_bytes_until_nul(&path).map_err(|_| Error::from(ErrorKind::NotFound))?;
        read_from(open(path)?, text)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;

    /// A mount with these files in it.
    pub(crate) fn mount(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    /// The limit and its file, below the mount.
    fn found(
        limit: impl Fn(ControlGroups) -> Option<GroupLimit>,
        listed: &str,
        files: &[(&str, &str)],
    ) -> Option<(u64, String)> {
        let folder = mount(files);
        let limit = limit(ControlGroups::new(listed, folder.path().to_str().unwrap()))?;
        let file = limit.path().strip_prefix(folder.path()).unwrap().display().to_string();
        Some((limit.value, file))
    }

    fn memory(listed: &str, files: &[(&str, &str)]) -> Option<(u64, String)> {
        found(|groups| groups.memory_limit(), listed, files)
    }

    fn pids(listed: &str, files: &[(&str, &str)]) -> Option<(u64, String)> {
        found(|groups| groups.pids_limit(), listed, files)
    }

    #[test]
    fn version_2_is_climbed_to_the_lowest_limit() {
        let v2 = "0::/a/b\n";
        let files = [("a/b/memory.max", "max\n"), ("a/memory.max", "4096\n"), ("memory.max", "8192\n")];
        assert_eq!(memory(v2, &files), Some((4096, "a/memory.max".into())));
        assert_eq!(memory("0::/\n", &files), Some((8192, "memory.max".into())));
        assert_eq!(memory("0::/kubepods/x\n", &files), Some((8192, "memory.max".into())), "the path is the host's");
        assert_eq!(memory(v2, &[("a/b/memory.max", "max\n")]), None);
        let files = [("a/b/pids.max", "90\n"), ("a/pids.max", "50\n"), ("pids.max", "max\n")];
        assert_eq!(pids(v2, &files), Some((50, "a/pids.max".into())));
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let v1 = "9:pids:/p/q\n4:cpu,memory:/docker/1\n1:name=systemd:/pids\n";
        let file = "memory/docker/1/memory.limit_in_bytes";
        assert_eq!(memory(v1, &[(file, "9223372036854771712\n")]), None);
        let files = [(file, "4096\n"), ("memory/memory.limit_in_bytes", "8192\n"), ("memory.max", "1\n")];
        assert_eq!(memory(v1, &files), Some((4096, file.into())));
        assert_eq!(memory(v1, &files[1..]), Some((8192, "memory/memory.limit_in_bytes".into())));
        let joined = "cpu,memory/docker/1/memory.limit_in_bytes";
        assert_eq!(memory(v1, &[(joined, "5\n")]), Some((5, joined.into())));
        let files = [("pids/p/q/pids.max", "max\n"), ("pids/p/pids.max", "70\n"), ("pids/docker/1/pids.max", "1\n")];
        assert_eq!(pids(v1, &files), Some((70, "pids/p/pids.max".into())));
    }

    #[test]
    fn a_hybrid_host_has_its_controllers_in_either_version() {
        let hybrid = "0::/s/x\n4:memory:/m\n";
        let files =
            [("memory/memory.limit_in_bytes", "4096\n"), ("unified/s/pids.max", "30\n"), ("s/x/memory.max", "max")];
        assert_eq!(memory(hybrid, &files), Some((4096, "memory/memory.limit_in_bytes".into())));
        assert_eq!(pids(hybrid, &files), Some((30, "unified/s/pids.max".into())));
        let versions: Vec<bool> =
            ControlGroups::new(hybrid, "").of(Controller::Memory).map(|group| group.is_v2).collect();
        assert_eq!(versions, [false, false, true, true, true], "the controller's own hierarchy comes first");
    }

    #[test]
    fn a_folder_is_the_group_s_where_it_is_mounted() {
        let folder = mount(&[("unified/a/cgroup.procs", ""), ("a/x", "")]);
        let groups = ControlGroups::new("0::/a/b\n", folder.path().to_str().unwrap());
        let folders: Vec<_> = groups.of(Controller::Cpu).map(|group| group.folder()).collect();
        assert_eq!(folders, [None, Some(folder.path().join("unified/a")), None]);
    }

    #[test]
    fn what_cannot_be_read_is_none_or_says_why() {
        let deep = format!("0::/{}\n", "x".repeat(2000));
        assert_eq!(memory(&deep, &[("memory.max", "7")]), Some((7, "memory.max".into())), "too deep for the stack");
        assert_eq!(memory("", &[("memory.max", "7")]), None);
        assert_eq!(memory("0::/a\n", &[("memory.max/x", "")]), None, "a folder");
        let folder = mount(&[("list", "")]);
        let list = folder.path().join("list");
        let kind = |list: &str| ControlGroups::read(list, "", &mut [0; 4096]).unwrap_err().kind();
        assert_eq!(kind(folder.path().join("none").to_str().unwrap()), ErrorKind::NotFound);
        fs::write(&list, b"0::/\xff\n").unwrap();
        assert_eq!(kind(list.to_str().unwrap()), ErrorKind::InvalidData);
    }
}
