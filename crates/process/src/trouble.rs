//! Why a process cannot be read. In: the system's error, and what was tried. Out: a sentence that says what is wanted.

use std::io;
use std::path::PathBuf;

use crate::Cost;

/// A process cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// There is no such process, or it has ended.
    #[error("process {0}: there is none, or it has ended")]
    Gone(u32),
    /// The kernel does not allow it.
    #[error(
        "process {0}: its memory may not be read. Wanted: the same user and /proc/sys/kernel/yama/ptrace_scope at 0, or CAP_SYS_PTRACE \
         (run as root), and a PID namespace that has it"
    )]
    Denied(u32),
    /// It now runs another program than at the begin of the reading.
    #[error("process {0}: it has started another program while it was read: try again")]
    Changed(u32),
    /// The time for reading it is over.
    #[error("process {0}: its mappings could not be read within the deadline")]
    Late(u32),
    /// Reading it costs too much.
    #[error("process {pid}: {cost}")]
    Costly {
        /// The process.
        pid: u32,
        /// The limit that was exceeded.
        cost: Cost,
    },
    /// An error in the words of another process.
    #[error("{0}")]
    Told(String),
    /// A core file cannot be read.
    #[error("{path}: {error}: wanted the core of a 64-bit x86-64 program, as the kernel or gcore writes it")]
    Core {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// Something else.
    #[error("process {pid}: {what}: {error}")]
    Other {
        /// The process.
        pid: u32,
        /// What was tried.
        what: &'static str,
        /// What the kernel says.
        error: io::Error,
    },
}

impl Trouble {
    /// Makes it from the system's error, and from what was tried.
    pub fn of(pid: u32, what: &'static str, error: io::Error) -> Trouble {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Trouble::Gone(pid),
            Some(libc::EACCES | libc::EPERM) => Trouble::Denied(pid),
            _ if error.kind() == io::ErrorKind::TimedOut => Trouble::Late(pid),
            _ => Trouble::Other { pid, what, error },
        }
    }
}
