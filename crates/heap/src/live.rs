//! A live process: `process_vm_readv` of pages that are present, and the kernel's state of each page. Nothing is stopped.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use crate::pages::Run;
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

/// The states of the pages of all private writable mappings, from `/proc/PID/pagemap`.
fn states(pid: u32, mappings: &[Mapping]) -> io::Result<Pages> {
    let pagemap = fs::File::open(format!("/proc/{pid}/pagemap"))?;
    let mut pages = Pages::default();
    for mapping in mappings.iter().filter(|one| one.writable && !one.shared) {
        scan(&pagemap, mapping, &mut pages)?;
    }
    Ok(pages)
}

/// `struct pm_scan_arg` of Linux 6.7.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
const HUGE: u64 = 1 << 6;

fn scan(pagemap: &fs::File, mapping: &Mapping, pages: &mut Pages) -> io::Result<()> {
    let mut regions = [Region::default(); 1024];
    let mut start = mapping.from;
    while start < mapping.to {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start,
            end: mapping.to,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_anyof_mask: PRESENT | SWAPPED,
            return_mask: PRESENT | SWAPPED | ZERO | HUGE,
            ..Scan::default()
        };
        // SAFETY: `scan` and the `vec_len` regions that it names live until the call returns, and only this call writes to them.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut scan) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        for region in regions.iter().take(count as usize) {
            let state = match region.categories {
                bits if bits & SWAPPED != 0 => State::Swapped,
                bits if bits & ZERO != 0 => State::Zero,
                bits if bits & HUGE != 0 => State::Huge,
                _ => State::Resident,
            };
            pages.push(Run { from: region.start, to: region.end, state });
        }
        if scan.walk_end <= start {
            break;
        }
        start = scan.walk_end;
    }
    Ok(())
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
