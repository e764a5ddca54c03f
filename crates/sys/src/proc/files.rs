//! Where the other files of `/proc` about a process are. In: a process, a file. Out: a path.
//!
//! What is parsed in this folder has no name here: who wants it calls its parser.

use std::fmt;

/// A file, a folder or a link about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
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
    /// A link to its root.
    Root,
    /// Its processor time in nanoseconds.
    Schedstat,
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            File::Cgroup => "cgroup",
            File::CgroupSpace => "ns/cgroup",
            File::Cmdline => "cmdline",
            File::Comm => "comm",
            File::Environ => "environ",
            File::Exe => "exe",
            File::Limits => "limits",
            File::Mem => "mem",
            File::MountSpace => "ns/mnt",
            File::Root => "root",
            File::Schedstat => "schedstat",
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
pub fn path(pid: u32, file: File) -> String {
    format!("/proc/{pid}/{file}")
}

/// The path of a file about this process.
pub fn own_path(file: File) -> String {
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
        use File::*;
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
