//! The paths of those files of `/proc` about a process that this folder does not parse.
//!
//! Files that are parsed in this folder have no name here: call their parser.

use std::fmt;

/// A file, a folder or a link about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcEntry {
    /// The list of its control groups.
    Cgroup,
    /// Its name space of control groups.
    CgroupSpace,
    /// The words of its command line.
    Cmdline,
    /// Its name.
    Comm,
    /// Its variables when it was started.
    Environ,
    /// A link to its program.
    Exe,
    /// Its limits.
    Limits,
    /// Its memory.
    Mem,
    /// Its name space of mounts.
    MountSpace,
    /// Its name space of process IDs.
    PidSpace,
    /// A link to its root.
    Root,
    /// Its processor time in nanoseconds.
    Schedstat,
}

impl fmt::Display for ProcEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProcEntry::Cgroup => "cgroup",
            ProcEntry::CgroupSpace => "ns/cgroup",
            ProcEntry::Cmdline => "cmdline",
            ProcEntry::Comm => "comm",
            ProcEntry::Environ => "environ",
            ProcEntry::Exe => "exe",
            ProcEntry::Limits => "limits",
            ProcEntry::Mem => "mem",
            ProcEntry::MountSpace => "ns/mnt",
            ProcEntry::PidSpace => "ns/pid",
            ProcEntry::Root => "root",
            ProcEntry::Schedstat => "schedstat",
        })
    }
}

/// A file about a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadFile {
    /// The system call that it is in.
    Syscall,
    /// The function of the kernel in which it waits.
    Wchan,
}

/// The path of a file about a process.
pub fn path(pid: u32, file: ProcEntry) -> String {
    format!("/proc/{pid}/{file}")
}

/// The path of a file about this process.
pub fn own_path(file: ProcEntry) -> String {
    format!("/proc/self/{file}")
}

/// The path of a file about a thread of a process.
pub fn thread_path(pid: u32, tid: u32, file: ThreadFile) -> String {
    let name = match file {
        ThreadFile::Syscall => "syscall",
        ThreadFile::Wchan => "wchan",
    };
    format!("/proc/{pid}/task/{tid}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_are_those_of_this_process() {
        use ProcEntry::*;
        let pid = std::process::id();
        for file in [Cgroup, CgroupSpace, Cmdline, Comm, Environ, Exe, Limits, Mem, MountSpace, Root] {
            let there = |path: String| std::fs::symlink_metadata(path).is_ok();
            assert!(there(path(pid, file)) && there(own_path(file)), "{file}");
        }
        assert_eq!(path(7, Schedstat), "/proc/7/schedstat");
        assert_eq!(thread_path(7, 8, ThreadFile::Syscall), "/proc/7/task/8/syscall");
        assert_eq!(thread_path(7, 8, ThreadFile::Wchan), "/proc/7/task/8/wchan");
    }
}
