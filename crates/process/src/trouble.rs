//! The errors of reading a process. Their texts say what is needed.

use std::io;
use std::path::PathBuf;

use allocanary_sys::proc::Stat;

use crate::Cost;

/// A process cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProcessTrouble {
    /// There is no such process, or it has ended.
    #[error("process {0}: there is none, or it has ended")]
    Gone(u32),
    /// The kernel does not allow it.
    #[error(
        "process {0}: its memory may not be read. Wanted: the same user and /proc/sys/kernel/yama/ptrace_scope at 0, or CAP_SYS_PTRACE \
         (run as root), and a PID namespace that has it"
    )]
    Denied(u32),
    /// It has started another program during the reading.
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
    /// An error whose text comes from another process.
    #[error("{0}")]
    Told(String),
    /// A core file cannot be read.
    #[error("{path}: {error}: wanted the core of a program for x86-64 or aarch64, as the kernel or gcore writes it")]
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

impl ProcessTrouble {
    /// Makes the error from the system's error, and from the step that failed.
    pub fn of(pid: u32, what: &'static str, error: io::Error) -> ProcessTrouble {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => ProcessTrouble::Gone(pid),
            Some(libc::EACCES | libc::EPERM) => ProcessTrouble::Denied(pid),
            _ if error.kind() == io::ErrorKind::TimedOut => ProcessTrouble::Late(pid),
            _ => ProcessTrouble::Other { pid, what, error },
        }
    }

    /// Explains a process that exists and has no memory, for a user who has named it. The result is no longer [`ProcessTrouble::Gone`],
    /// which callers distinguish.
    pub fn explained(self) -> ProcessTrouble {
        let ProcessTrouble::Gone(pid) = self else { return self };
        // This process lives: if /proc does not show it, /proc is missing.
        if Stat::of(std::process::id()).is_err() {
            return ProcessTrouble::Told(format!(
                "process {pid}: wanted /proc, found none that has this command: mount it (mount -t proc proc /proc)"
            ));
        }
        let text = Stat::of(pid).ok().and_then(|stat| without_memory(&stat));
        text.map_or(ProcessTrouble::Gone(pid), ProcessTrouble::Told)
    }
}

/// Why a process that exists has no memory, and what to read instead.
fn without_memory(stat: &Stat) -> Option<String> {
    let Stat { pid, parent, .. } = stat;
    if stat.is_of_kernel {
        return Some(format!(
            "process {pid}: it is a thread of the kernel, which has no memory of its own. The kernel's memory is in /proc/meminfo and \
             /proc/slabinfo"
        ));
    }
    (stat.has_ended() && stat.threads <= 1).then(|| {
        format!(
            "process {pid}: it has ended and has no memory. Its parent, process {parent}, has not asked for its exit code yet: read the \
             parent, `allocanary heap {parent}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pid: u32) -> String {
        ProcessTrouble::Gone(pid).explained().to_string()
    }

    #[test]
    fn a_process_without_memory_is_told_as_what_it_is() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        while !Stat::of(pid).unwrap().has_ended() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let own = std::process::id();
        let wanted = format!(
            "process {pid}: it has ended and has no memory. Its parent, process {own}, has not asked for its exit code yet: read the \
             parent, `allocanary heap {own}`"
        );
        assert_eq!(told(pid), wanted);
        child.wait().unwrap();
        assert_eq!(told(u32::MAX), format!("process {}: there is none, or it has ended", u32::MAX));
        let text = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0";
        assert!(without_memory(&Stat::parse(text).unwrap()).unwrap().contains("a thread of the kernel"));
        assert_eq!(without_memory(&Stat::of(own).unwrap()), None);
    }
}
