//! What is opened or asked of the kernel about a process. The child that parses has no rights, and sends one of these to
//! the command. Of a process none of them contains a path: what it names must not say which file is opened.

use std::fmt;
use std::fs::File;

use serde::{Deserialize, Serialize};

use crate::file::Stamp;

/// A wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BrokerRequest {
    /// A file of the kernel about a process.
    Proc(u32, ProcFile),
    /// The path of its executable, as the kernel writes it.
    Link(u32),
    /// Its threads, each with its list of robust locks.
    Threads(u32),
    /// What its threads are called, and the calls in which they wait.
    Calls(u32),
    /// The words that only the kernel has, and its pipes to itself.
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
    /// A program or library of this host that this core names.
    Library(String),
    /// The debug file of this host for a build.
    Debug(Vec<u8>),
    /// The time of boot, or how many processes have each page.
    Kernel(HostFile),
    /// To stop it.
    Stop(u32),
    /// What its threads have in their registers, while it is stopped.
    Registers(u32),
    /// To let it continue.
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
    /// Its numbers, in one line.
    Stat,
    /// Its numbers, a line each.
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
    /// Whether a file system has to answer. It may not do so for hours, and nothing may wait for that while a process is
    /// stopped.
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

    /// The process that it is about. `None` if it is about this host.
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
    /// Its number.
    pub tid: u32,
    /// Its stack pointer.
    pub stack: u64,
    /// The words in its registers.
    pub words: Vec<u64>,
}

/// A thread of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessThread {
    /// Its number.
    pub tid: u32,
    /// Where its list of robust locks begins. `None` if the kernel does not tell.
    pub robust: Option<u64>,
}

/// What a thread is called, and where it waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadWait {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The text of `/proc/PID/task/TID/syscall`; empty if it may not be read.
    pub call: String,
}

/// What a process gave the kernel, and gets back later. No memory of the process needs to have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedBack {
    /// The data of the descriptors that its epoll descriptors watch.
    pub epoll: Vec<u64>,
    /// The values of its timers.
    pub timers: Vec<u64>,
    /// Pipes of which it has both ends. What is in them cannot be looked at.
    pub pipes: u64,
}

/// What was opened or asked for.
#[derive(Debug, Default)]
pub struct BrokerReply {
    /// The descriptor.
    pub file: Option<File>,
    /// What the file system said of it.
    pub stamp: Option<Stamp>,
    /// A text: a path, or JSON.
    pub text: String,
}
