//! A live process: `process_vm_readv` of pages that are present, and the kernel's state of each page. Nothing is stopped.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::pages::Run;
use crate::reader::Cost;
use crate::states::states;
use crate::{Fact, FileId, Mapping, Memory, PAGE, Pages, State, Thread, files, parse_maps};

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
    /// It runs another program than when the reading began.
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
        /// What was too much.
        cost: Cost,
    },
    /// What another process has told of it.
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

/// From the thread pointer to the list of robust locks, in every glibc on x86-64 from 2.27 on.
const FROM_POINTER_TO_ROBUST_LIST: u64 = 0x2e0;

impl Trouble {
    /// From the system's error, and what was tried.
    pub fn of(pid: u32, what: &'static str, error: io::Error) -> Trouble {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Trouble::Gone(pid),
            Some(libc::EACCES | libc::EPERM) => Trouble::Denied(pid),
            _ => Trouble::Other { pid, what, error },
        }
    }
}

/// The memory of a live process, as its mappings and pages were at one moment. What is read later may have changed.
#[derive(Debug)]
pub struct Live {
    pid: u32,
    mappings: Vec<Mapping>,
    threads: Vec<Thread>,
    pages: Pages,
    until: Option<Instant>,
    late: Cell<bool>,
    /// The files of its mappings, by number and name.
    files: RefCell<BTreeMap<(u64, String), Option<FileId>>>,
}

impl Live {
    /// Reads the mappings, threads and page states of a process.
    pub fn open(pid: u32) -> Result<Live, Trouble> {
        Live::open_until(pid, None)
    }

    /// As [`Live::open`]; from a time on nothing more is read.
    pub fn open_until(pid: u32, until: Option<Instant>) -> Result<Live, Trouble> {
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(Trouble::Late(pid));
        }
        let trouble = |what: &'static str, error: io::Error| Trouble::of(pid, what, error);
        let text = fs::read(format!("/proc/{pid}/maps")).map_err(|error| trouble("reading its mappings", error))?;
        let mappings = parse_maps(&String::from_utf8_lossy(&text));
        let pages = states(pid, &mappings).map_err(|error| trouble("reading the state of its pages", error))?;
        let tids = tids(pid).map_err(|error| trouble("reading its threads", error))?;
        let mut live = Live {
            pid,
            mappings,
            threads: Vec::new(),
            pages,
            until,
            late: Cell::new(false),
            files: RefCell::default(),
        };
        live.clear_up();
        live.threads = tids.into_iter().map(|tid| Thread { tid, pointer: live.thread_pointer(tid) }).collect();
        Ok(live)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Pages that may be the page of zeroes are resident if there is something else in them.
    fn clear_up(&mut self) {
        let runs = self.pages.within(0, u64::MAX);
        let pages = runs.flat_map(|run| match run.state {
            State::Unclear => (run.from..run.to).step_by(PAGE as usize).map(|at| self.cleared(at)).collect(),
            _ => vec![run],
        });
        let mut clear = Pages::default();
        pages.for_each(|run| clear.push(run));
        self.pages = clear;
    }

    fn cleared(&self, at: u64) -> Run {
        let mut bytes = [0; PAGE as usize];
        let full = self.copy(at, &mut bytes) && bytes.iter().any(|&byte| byte != 0);
        Run { from: at, to: at + PAGE, state: if full { State::Resident } else { State::Unclear } }
    }

    /// The thread pointer of a thread: glibc tells the kernel where a thread's list of robust locks begins, which lies in the thread's
    /// own structure. The structure proves itself: it points to itself twice.
    fn thread_pointer(&self, tid: u32) -> Option<u64> {
        let (mut head, mut bytes) = (0_u64, 0_usize);
        // SAFETY: the kernel writes one word to each of the two variables, which live until the call returns.
        let done = unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut bytes) };
        let pointer = head.checked_sub(FROM_POINTER_TO_ROBUST_LIST).filter(|_| done == 0)?;
        let points_to_itself = |at: u64| self.word(pointer + at) == Some(pointer);
        (points_to_itself(0) && points_to_itself(16)).then_some(pointer)
    }

    /// Which file a mapping has, asked once for each.
    fn id_of_file(&self, mapping: &Mapping) -> Option<FileId> {
        let name = (mapping.inode, mapping.name.clone());
        *self.files.borrow_mut().entry(name).or_insert_with(|| FileId::of(&found(self.pid, mapping).ok()?))
    }

    /// Reads what is constant from the file, because copying it from the process would give the process a page.
    fn read_file(&self, mapping: &Mapping, at: u64, into: &mut [u8]) -> bool {
        file_of(self.pid, mapping)
            .is_ok_and(|file| file.read_exact_at(into, mapping.offset + (at - mapping.from)).is_ok())
    }

    /// Reads private memory: what was never touched is zero, and touching it from here would give the process a page.
    fn read_private(&self, from: u64, into: &mut [u8]) -> bool {
        let to = from + into.len() as u64;
        let mut done = from;
        for run in self.pages.within(from, to) {
            into[(done - from) as usize..(run.from - from) as usize].fill(0);
            let part = &mut into[(run.from - from) as usize..(run.to - from) as usize];
            let whole = match run.state {
                State::Resident | State::Huge | State::Unclear => self.copy(run.from, part),
                State::Zero => {
                    part.fill(0);
                    true
                }
                State::Swapped => false,
            };
            if !whole {
                return false;
            }
            done = run.to;
        }
        into[(done - from) as usize..].fill(0);
        true
    }

    /// Copies bytes that are present. Returns whether all could be copied.
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: `local` is the buffer that was borrowed for writing; the remote address is only used by the kernel, which checks it.
        let count = unsafe { libc::process_vm_readv(self.pid as libc::pid_t, &local, 1, &remote, 1, 0) };
        // It has ended: nothing more can be read.
        if count < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
            self.late.set(true);
        }
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

    fn fact(&self, mapping: &Mapping, fact: Fact) -> Option<Option<u64>> {
        let id = self.id_of_file(mapping)?;
        files::fact(id, fact, || file_of(self.pid, mapping)).ok()
    }

    fn is_late(&self) -> bool {
        self.late.get()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            self.late.set(true);
            return false;
        }
        let Some(end) = at.checked_add(into.len() as u64) else { return false };
        let mut from = at;
        while from < end {
            let Some(mapping) = self.mapping(from).filter(|one| one.readable) else { return false };
            let to = end.min(mapping.to);
            let part = &mut into[(from - at) as usize..(to - at) as usize];
            let whole = match (mapping.writable, mapping.shared) {
                (true, false) => self.read_private(from, part),
                (false, false) if mapping.inode != 0 => self.read_file(mapping, from, part),
                _ => self.copy(from, part),
            };
            if !whole {
                return false;
            }
            from = to;
        }
        true
    }
}

/// The file of a mapping of a process, for reading.
pub fn file_of(pid: u32, mapping: &Mapping) -> io::Result<fs::File> {
    by_range(pid, mapping).or_else(|_| by_name(format!("/proc/{pid}/root").as_ref(), mapping))
}

/// What the file system says of the file of a mapping, without opening it.
fn found(pid: u32, mapping: &Mapping) -> io::Result<fs::Metadata> {
    fs::metadata(map_file(pid, mapping))
        .or_else(|_| place_by_name(format!("/proc/{pid}/root").as_ref(), mapping)?.metadata())
}

/// The link of the kernel to the file of a mapping.
fn map_file(pid: u32, mapping: &Mapping) -> String {
    format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.from, mapping.to)
}

/// The file of a mapping, as the kernel has it. That needs a capability.
fn by_range(pid: u32, mapping: &Mapping) -> io::Result<fs::File> {
    regular(place(map_file(pid, mapping).as_ref(), 0)?)
}

/// The file of a mapping by its path below a root. Something else may have that name by now: only a regular file with the same number is
/// opened. The kernel writes paths without links, so none is followed: a link that begins with `/` would lead out of the root.
/// The device is not compared: some file systems show another one in `maps` than in `stat`.
fn by_name(root: &Path, mapping: &Mapping) -> io::Result<fs::File> {
    regular(place_by_name(root, mapping)?)
}

fn place_by_name(root: &Path, mapping: &Mapping) -> io::Result<fs::File> {
    let mut found = place(root, libc::O_DIRECTORY)?;
    for part in mapping.name.split('/').filter(|part| !part.is_empty()) {
        found = place(&through(&found).join(part), libc::O_NOFOLLOW)?;
    }
    if found.metadata()?.ino() != mapping.inode {
        return Err(io::Error::new(io::ErrorKind::NotFound, "another file has its name"));
    }
    Ok(found)
}

/// A place in the file system, without opening what is there: that could wait for ever (a FIFO), or do something (a device).
fn place(path: &Path, flags: i32) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH | flags).open(path)
}

/// Opens what is at a place for reading, if it is a regular file.
fn regular(place: fs::File) -> io::Result<fs::File> {
    if !place.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(through(&place))
}

fn through(place: &fs::File) -> PathBuf {
    format!("/proc/self/fd/{}", place.as_raw_fd()).into()
}

fn tids(pid: u32) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
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
    fn after_its_time_nothing_is_read() {
        let word = Box::new(7_u64);
        let at = &raw const *word as u64;
        let mut live = Live::open(std::process::id()).unwrap();
        assert_eq!((live.word(at), live.is_late()), (Some(7), false));
        live.until = Some(Instant::now());
        assert_eq!((live.word(at), live.is_late()), (None, true));
        let error = Live::open_until(std::process::id(), Some(Instant::now())).unwrap_err();
        assert!(matches!(error, Trouble::Late(_)), "{error}");
    }

    #[test]
    fn a_process_that_is_not_there() {
        let error = Live::open(0x3fff_ffff).unwrap_err();
        assert!(matches!(error, Trouble::Gone(_)), "{error}");
    }

    /// A mapping of the file that is at a path now.
    fn mapping_of(root: &Path, name: &str) -> Mapping {
        let inode = fs::metadata(root.join(&name[1..])).unwrap().ino();
        Mapping { inode, name: name.to_string(), ..Mapping::default() }
    }

    #[test]
    fn only_a_regular_file_with_the_number_of_the_mapping_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("lib")).unwrap();
        fs::write(root.join("lib/file"), "text").unwrap();
        let mapping = mapping_of(root, "/lib/file");
        assert_eq!(io::read_to_string(by_name(root, &mapping).unwrap()).unwrap(), "text");
        let other = Mapping { inode: mapping.inode + 1, ..mapping };
        assert_eq!(by_name(root, &other).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_fifo_and_a_directory_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("folder")).unwrap();
        let path = std::ffi::CString::new(root.join("fifo").into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: the path is a string that ends with a zero and lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        for name in ["/fifo", "/folder"] {
            let error = by_name(root, &mapping_of(root, name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}: {error}");
        }
    }

    #[test]
    fn no_link_leads_out_of_the_root() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = folder.path();
        fs::write(outside.path().join("file"), "text").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("folder")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("file"), root.join("link")).unwrap();
        for name in ["/folder/file", "/link"] {
            assert!(by_name(root, &mapping_of(root, name)).is_err(), "{name}");
        }
    }
}
