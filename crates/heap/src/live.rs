//! A live process: `process_vm_readv` of pages that are present, and the kernel's state of each page. Nothing is stopped.

use std::fs;
use std::io;

use crate::states::states;
use crate::{Mapping, Memory, PAGE, Pages, State, Thread, parse_maps};

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

/// The memory of a live process, as its mappings and pages were at one moment. What is read later may have changed.
#[derive(Debug)]
pub struct Live {
    pid: u32,
    mappings: Vec<Mapping>,
    threads: Vec<Thread>,
    pages: Pages,
}

impl Live {
    /// Reads the mappings, threads and page states of a process.
    pub fn open(pid: u32) -> Result<Live, Trouble> {
        let trouble = |what: &'static str, error: io::Error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Trouble::Gone(pid),
            Some(libc::EACCES | libc::EPERM) => Trouble::Denied(pid),
            _ => Trouble::Other { pid, what, error },
        };
        let text = fs::read(format!("/proc/{pid}/maps")).map_err(|error| trouble("reading its mappings", error))?;
        let mappings = parse_maps(&String::from_utf8_lossy(&text));
        let pages = states(pid, &mappings).map_err(|error| trouble("reading the state of its pages", error))?;
        let threads = threads(pid).map_err(|error| trouble("reading its threads", error))?;
        Ok(Live { pid, mappings, threads, pages })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Copies bytes that are present. Returns whether all could be copied.
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: `local` is the buffer that was borrowed for writing; the remote address is only used by the kernel, which checks it.
        let count = unsafe { libc::process_vm_readv(self.pid as libc::pid_t, &local, 1, &remote, 1, 0) };
        count == into.len() as isize
    }
}

impl Memory for Live {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn pages(&self) -> &Pages {
        &self.pages
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(end) = at.checked_add(into.len() as u64) else { return false };
        let mut from = at;
        while from < end {
            let Some(mapping) = self.mapping(from).filter(|one| one.readable) else { return false };
            let to = end.min(mapping.to);
            let part = &mut into[(from - at) as usize..(to - at) as usize];
            let whole = if !mapping.writable || mapping.shared {
                self.copy(from, part)
            } else {
                // Memory that was never touched is zero; touching it from here would give the process a page.
                part.fill(0);
                mapping.inode == 0 && self.pages.resident(from / PAGE * PAGE, to) == 0
                    || self.pages.within(from, to).all(|run| match run.state {
                        State::Resident | State::Huge => {
                            self.copy(run.from, &mut part[(run.from - from) as usize..(run.to - from) as usize])
                        }
                        State::Zero => true,
                        State::Swapped => false,
                    })
            };
            if !whole {
                return false;
            }
            from = to;
        }
        true
    }
}

fn threads(pid: u32) -> io::Result<Vec<Thread>> {
    let tids =
        fs::read_dir(format!("/proc/{pid}/task"))?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(tids.map(|tid| Thread { tid, pointer: None }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_wrote_is_read_back() {
        let written: Vec<u64> = (0..100_000).map(|at| at * 0x9e37_79b9).collect();
        let live = Live::open(std::process::id()).unwrap();
        let at = written.as_ptr() as u64;
        assert_eq!(live.word(at + 8 * 77_777), Some(written[77_777]));
        let mut bytes = vec![0; 8 * written.len()];
        assert!(live.read(at, &mut bytes));
        assert!(bytes.chunks(8).zip(&written).all(|(bytes, word)| bytes == word.to_le_bytes()));
        assert!(live.pages().resident(at, at + 800_000) >= 790_000);
    }

    #[test]
    fn a_process_that_is_not_there() {
        let error = Live::open(0x3fff_ffff).unwrap_err();
        assert!(matches!(error, Trouble::Gone(_)), "{error}");
    }
}
