//! The requests of the child, which has no rights, to the command. No request about a process contains a path: what a process names must
//! not decide which file is opened.

use std::fmt;
use std::fs::File;

use serde::{Deserialize, Serialize};

use crate::file::Stamp;

/// A request for something that the command can open or read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BrokerRequest {
    /// A file of the kernel about a process.
    Proc(u32, ProcFile),
    /// The path of its executable, as the kernel writes it.
    Link(u32),
    /// Its threads, each with its list of robust locks.
    Threads(u32),
    /// The names of its threads, and the system calls in which they wait.
    Calls(u32),
    /// The words that only the kernel has, and the number of its pipes to itself.
    HandedBack(u32),
    /// Its executable.
    Executable(u32),
    /// The file of the mapping with these addresses.
    Mapped(u32, u64, u64),
    /// The file `release` of the Java runtime whose `libjvm.so` has this mapping.
    JavaRelease(u32, u64, u64),
    /// The links in `/etc` below its root, from which jemalloc reads settings.
    Links(u32),
    /// The core file that the user has named.
    Core,
    /// The path of a program or library of this host, from the core file.
    Library(String),
    /// The debug file on this host for a build-id.
    Debug(Vec<u8>),
    /// The time of boot, or how many processes have each page.
    Kernel(HostFile),
    /// Stop the process.
    Stop(u32),
    /// The registers of its threads, while it is stopped.
    Registers(u32),
    /// Let the process continue.
    Continue(u32),
}

/// A file of `/proc/PID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcFile {
    /// Its command line.
    Cmdline,
    /// Its variables when it was started.
    Environ,
    /// Its mappings.
    Maps,
    /// Its memory.
    Mem,
    /// The states of its pages.
    Pagemap,
    /// Its mappings with the kernel's counts.
    Smaps,
    /// Its state and counts, in one line.
    Stat,
    /// Its state and counts, a line each.
    Status,
}

/// A file of the kernel about this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostFile {
    /// `/proc/stat`.
    Stat,
    /// `/proc/kpagecount`.
    Pagecount,
}

impl fmt::Display for ProcFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProcFile::Cmdline => "cmdline",
            ProcFile::Environ => "environ",
            ProcFile::Maps => "maps",
            ProcFile::Mem => "mem",
            ProcFile::Pagemap => "pagemap",
            ProcFile::Smaps => "smaps",
            ProcFile::Stat => "stat",
            ProcFile::Status => "status",
        })
    }
}

impl BrokerRequest {
    /// Whether a file system must answer the request. This may take hours, and nothing may wait for it while a process is stopped.
    pub(crate) fn touches_files(&self) -> bool {
        matches!(
            self,
            BrokerRequest::Executable(_)
                | BrokerRequest::Mapped(..)
                | BrokerRequest::JavaRelease(..)
                | BrokerRequest::Links(_)
                | BrokerRequest::Debug(_)
                | BrokerRequest::Link(_)
        )
    }

    /// The process that the request is about. `None` if it is about this host.
    pub fn pid(&self) -> Option<u32> {
        match self {
            BrokerRequest::Proc(pid, _)
            | BrokerRequest::Link(pid)
            | BrokerRequest::Threads(pid)
            | BrokerRequest::Calls(pid)
            | BrokerRequest::HandedBack(pid)
            | BrokerRequest::Executable(pid)
            | BrokerRequest::Mapped(pid, ..)
            | BrokerRequest::JavaRelease(pid, ..)
            | BrokerRequest::Links(pid)
            | BrokerRequest::Stop(pid)
            | BrokerRequest::Registers(pid)
            | BrokerRequest::Continue(pid) => Some(*pid),
            BrokerRequest::Core | BrokerRequest::Library(_) | BrokerRequest::Debug(_) | BrokerRequest::Kernel(_) => {
                None
            }
        }
    }
}

/// The registers of a thread of a stopped process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRegisters {
    /// The thread ID.
    pub tid: u32,
    /// Its stack pointer.
    pub stack: u64,
    /// The words in its registers.
    pub words: Vec<u64>,
}

/// A thread of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessThread {
    /// The thread ID.
    pub tid: u32,
    /// The address of its list of robust locks. `None` if the kernel does not give it.
    pub robust: Option<u64>,
}

/// The name of a thread, and where it waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadWait {
    /// The thread ID.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The text of `/proc/PID/task/TID/syscall`; empty if it may not be read.
    pub call: String,
}

/// The words that a process gave to the kernel and gets back later. The process's memory may not contain them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedBack {
    /// The data of the descriptors that its epoll descriptors watch.
    pub epoll: Vec<u64>,
    /// The values of its timers.
    pub timers: Vec<u64>,
    /// The number of pipes of which it has both ends. Their content cannot be read.
    pub pipes: u64,
}

/// The reply to a request.
#[derive(Debug, Default)]
pub struct BrokerReply {
    /// The descriptor.
    pub file: Option<File>,
    /// The attributes of the file.
    pub stamp: Option<Stamp>,
    /// A text: a path, or JSON.
    pub text: String,
}
