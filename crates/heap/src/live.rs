//! A live process: reads its present pages by `/proc/PID/mem`, and the kernel's state of each page.

use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Instant;

use allocanary_process::{Opened, ProcFile, ProcessFiles, ProcessTrouble, open, text, threads};

use crate::PageRun;
use crate::copies::{self, Ended, Range};
use crate::states::states;
use crate::{
    Fact, KernelCounts, Machine, Mapping, Memory, PageState, PageStates, Piece, Processor, ThreadId, files, parse_maps,
};

/// On x86-64: from the thread pointer to the list of robust locks, in every glibc on x86-64 from 2.27 on.
const FROM_POINTER_TO_ROBUST_LIST: u64 = 0x2e0;

/// The memory of a live process. Its mappings and page states are those of one moment. Bytes that are read later may
/// have changed.
#[derive(Debug)]
pub struct LiveProcess {
    pid: u32,
    machine: Machine,
    mappings: Vec<Mapping>,
    threads: Vec<ThreadId>,
    pages: PageStates,
    kernel: [KernelCounts; 2],
    until: Option<Instant>,
    late: Cell<bool>,
    cut: Cell<bool>,
    memory: fs::File,
    /// The files of its mappings.
    files: Rc<ProcessFiles>,
}

impl LiveProcess {
    /// Reads the mappings, threads and page states of a process.
    pub fn open(pid: u32) -> Result<LiveProcess, ProcessTrouble> {
        LiveProcess::open_until(pid, None)
    }

    /// As [`LiveProcess::open`], but reads nothing after the time `until`.
    pub fn open_until(pid: u32, until: Option<Instant>) -> Result<LiveProcess, ProcessTrouble> {
        LiveProcess::open_with(&Rc::new(ProcessFiles::of(pid)), until)
    }

    /// As [`LiveProcess::open_until`], with files that may be open already.
    pub fn open_with(files: &Rc<ProcessFiles>, until: Option<Instant>) -> Result<LiveProcess, ProcessTrouble> {
        let pid = files.pid();
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(ProcessTrouble::Late(pid));
        }
        let trouble = |what: &'static str, error: io::Error| ProcessTrouble::of(pid, what, error);
        let before = KernelCounts::of(pid).map_err(|error| trouble("reading its counts", error))?;
        let (mappings, pages) = looked_at(pid, until).map_err(|(what, error)| trouble(what, error))?;
        let after = KernelCounts::of(pid).map_err(|error| trouble("reading its counts", error))?;
        let all = threads(pid).map_err(|error| trouble("reading its threads", error))?;
        let memory = open(pid, ProcFile::Mem).map_err(|error| trouble("opening its memory", error))?;
        let (threads, kernel, files) = (Vec::new(), [before, after], files.clone());
        let (late, cut, machine) = (Cell::new(false), Cell::new(false), Machine::here());
        let mut live = LiveProcess { pid, machine, mappings, threads, pages, kernel, until, late, cut, memory, files };
        live.clear_up();
        let thread = |one: &allocanary_process::ProcessThread| ThreadId {
            tid: one.tid,
            pointer: live.thread_pointer(one.robust),
        };
        live.threads = all.iter().map(thread).collect();
        Ok(live)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The kernel's counts just before and just after the states of the pages were read.
    pub fn kernel(&self) -> [KernelCounts; 2] {
        self.kernel
    }

    /// Whether its memory disappeared during the reading: the process has ended, or runs another program.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.get()
    }

    /// The time after which nothing is read.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// A page that may be the kernel's page of zeroes is resident if it has a byte other than zero.
    fn clear_up(&mut self) {
        let runs = self.pages.within(0, u64::MAX);
        let pages = runs.flat_map(|run| match run.state {
            PageState::Unclear => {
                (run.from..run.to).step_by(self.machine.page as usize).map(|at| self.cleared(at)).collect()
            }
            _ => vec![run],
        });
        let mut clear = PageStates::default();
        pages.for_each(|run| clear.push(run));
        self.pages = clear;
    }

    fn cleared(&self, at: u64) -> PageRun {
        let mut bytes = vec![0; self.machine.page as usize];
        let full = self.copy(at, &mut bytes) && bytes.iter().any(|&byte| byte != 0);
        PageRun {
            from: at,
            to: at + self.machine.page,
            state: if full { PageState::Resident } else { PageState::Unclear },
        }
    }

    /// The thread pointer of a thread. glibc tells the kernel where the thread's list of robust locks begins. This list
    /// is in the thread's own structure, which proves itself: on x86-64 it points to itself twice. On aarch64 it does not, and it ends below
    /// the thread pointer, at a distance that depends on the release. There the list stands for it, and proves itself by its own words.
    fn thread_pointer(&self, robust: Option<u64>) -> Option<u64> {
        let list = robust?;
        if self.machine.processor == Processor::Aarch64 {
            let mut bytes = [0; 24];
            let is_read = self.read(list.checked_sub(8)?, &mut bytes);
            return (is_read && robust_list(&bytes).is_some()).then_some(list);
        }
        let pointer = list.checked_sub(FROM_POINTER_TO_ROBUST_LIST)?;
        let points_to_itself = |at: u64| self.word(pointer + at) == Some(pointer);
        (points_to_itself(0) && points_to_itself(16)).then_some(pointer)
    }

    /// The file of a mapping. It is opened once.
    pub fn file_of(&self, mapping: &Mapping) -> io::Result<Rc<Opened>> {
        self.files.get(mapping.from, mapping.to, mapping.inode)
    }

    /// Reads pages that the process has not touched from the mapping's file: reading them from the process would make new pages in it. The
    /// last page of the file is filled with zeroes after the end of the file.
    fn read_file(opened: &Opened, mapping: &Mapping, page: u64, at: u64, into: &mut [u8]) -> io::Result<()> {
        let (file, bytes) = (&opened.file, opened.stamp.bytes);
        let from = mapping.offset + (at - mapping.from);
        if from + into.len() as u64 > bytes.next_multiple_of(page) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let there = bytes.saturating_sub(from).min(into.len() as u64) as usize;
        into[there..].fill(0);
        file.read_exact_at(&mut into[..there], from)
    }

    /// Reads the bytes of a mapping. Untouched pages have the file's bytes, or zeroes, and are not read from the process: that would make
    /// new pages in it.
    fn read_mapping(&self, mapping: &Mapping, from: u64, into: &mut [u8]) -> bool {
        let to = from + into.len() as u64;
        // The file is opened once, for all gaps between touched pages.
        let mut file = None;
        let mut untouched = |at: u64, part: &mut [u8]| match mapping {
            _ if part.is_empty() => true,
            one if one.inode != 0 => {
                let file = file.get_or_insert_with(|| self.file_of(one));
                file.as_ref().is_ok_and(|file| Self::read_file(file, one, self.machine.page, at, part).is_ok())
            }
            // Mappings of the kernel, such as `[vdso]`.
            one if one.name.starts_with("[v") => self.copy(at, part),
            one if one.shared => false,
            _ => {
                part.fill(0);
                true
            }
        };
        let mut done = from;
        for run in self.pages.within(from, to) {
            let (gap, rest) = into[(done - from) as usize..].split_at_mut((run.from - done) as usize);
            let part = &mut rest[..(run.to - run.from) as usize];
            let whole = untouched(done, gap)
                && match run.state {
                    PageState::Resident | PageState::OfFile | PageState::Huge | PageState::Unclear => {
                        self.copy(run.from, part)
                    }
                    PageState::Zero => {
                        part.fill(0);
                        true
                    }
                    PageState::Swapped | PageState::Guard => false,
                };
            if !whole {
                return false;
            }
            done = run.to;
        }
        untouched(done, &mut into[(done - from) as usize..])
    }

    /// Copies present bytes. Returns whether all could be copied.
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        self.copy_each(&mut [Range { at, into }]) == [true]
    }

    /// Copies present bytes of many ranges. Returns for each whether all could be copied.
    fn copy_each(&self, ranges: &mut [Range]) -> Vec<bool> {
        let first = ranges.first().map_or(0, |range| range.at);
        copies::copy(&self.memory, ranges).unwrap_or_else(|Ended| {
            self.late.set(true);
            // Memory that is gone gives 0 bytes, without an error.
            self.cut.set(matches!(self.memory.read_at(&mut [0], first), Ok(0)));
            vec![false; ranges.len()]
        })
    }

    /// Whether the time for reading is over.
    fn is_over(&self) -> bool {
        let is_over = self.until.is_some_and(|until| Instant::now() >= until);
        if is_over {
            self.late.set(true);
        }
        is_over
    }

    /// Whether a range is in one mapping of private memory, and not in swap. In such a range, pages that are not present are zero.
    fn is_plain(&self, from: u64, bytes: usize) -> bool {
        let is_inside = |mapping: &&Mapping| mapping.to - from >= bytes as u64 && mapping.readable;
        self.mapping(from).filter(is_inside).is_some_and(Mapping::is_heap_like)
            && self.pages.within(from, from + bytes as u64).all(|run| run.state.may_be_read())
    }
}

impl Memory for LiveProcess {
    fn machine(&self) -> Machine {
        self.machine
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[ThreadId] {
        &self.threads
    }

    fn pages(&self) -> &PageStates {
        &self.pages
    }

    fn fact(&self, mapping: &Mapping, fact: Fact) -> Option<Option<u64>> {
        self.file_of(mapping).ok().map(|opened| files::fact(&opened, fact))
    }

    fn is_late(&self) -> bool {
        self.late.get()
    }

    fn read_now(&self, at: u64, into: &mut [u8]) -> bool {
        !self.is_over() && self.copy(at, into)
    }

    fn read_each(&self, pieces: &mut [Piece]) {
        let mut ranges = Vec::new();
        let mut of = Vec::new();
        for (index, Piece { at, bytes, is_read }) in pieces.iter_mut().enumerate() {
            if !self.is_plain(*at, bytes.len()) {
                *is_read = self.read(*at, bytes);
                continue;
            }
            *is_read = !self.is_over();
            let (mut done, mut rest) = (*at, bytes.as_mut_slice());
            for run in self.pages.within(*at, *at + rest.len() as u64).filter(|run| run.state != PageState::Zero) {
                let (gap, present) = std::mem::take(&mut rest).split_at_mut((run.from - done) as usize);
                gap.fill(0);
                let (into, behind) = present.split_at_mut((run.to - run.from) as usize);
                ranges.push(Range { at: run.from, into });
                of.push(index);
                (done, rest) = (run.to, behind);
            }
            rest.fill(0);
        }
        let copied = if self.is_late() { vec![false; ranges.len()] } else { self.copy_each(&mut ranges) };
        for (index, _) in of.into_iter().zip(copied).filter(|(_, copied)| !copied) {
            pieces[index].is_read = false;
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        if self.is_over() {
            return false;
        }
        let Some(end) = at.checked_add(into.len() as u64) else { return false };
        let mut from = at;
        while from < end {
            let Some(mapping) = self.mapping(from).filter(|one| one.readable) else { return false };
            let to = end.min(mapping.to);
            let part = &mut into[(from - at) as usize..(to - at) as usize];
            if !self.read_mapping(mapping, from, part) {
                return false;
            }
            from = to;
        }
        true
    }
}

/// Where in some bytes a thread of glibc has its list of robust locks: the address of the first lock's link, or of the list itself, then the
/// distance from a link to its lock, which is -32 in all releases. A pointer to the last link is right before the list.
pub(crate) fn robust_list(bytes: &[u8]) -> Option<u64> {
    const TO_LOCK: u64 = 32_u64.wrapping_neg();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let is_list = |at: &usize| word(at + 16) == TO_LOCK && word(*at) != 0 && word(at + 8) != 0;
    (0..bytes.len().saturating_sub(23)).step_by(8).find(is_list).map(|at| at as u64 + 8)
}

/// The mappings, and the states of their pages. The error has the step that failed.
///
/// Reading the states takes a while, and memory grows during this time. So the states of new ranges are read once more
/// at the end.
fn looked_at(pid: u32, until: Option<Instant>) -> Result<(Vec<Mapping>, PageStates), (&'static str, io::Error)> {
    let maps = || {
        let text = text(pid, ProcFile::Maps).map_err(|error| ("reading its mappings", error))?;
        Ok(parse_maps(text))
    };
    let states =
        |mappings: &[Mapping]| states(pid, mappings, until).map_err(|error| ("reading the state of its pages", error));
    let before = maps()?;
    let pages = states(&before)?;
    let now = maps()?;
    let pages = pages.with(states(&grown(&before, &now))?);
    Ok((now, pages))
}

/// The ranges of the present mappings that were in no mapping before.
fn grown(before: &[Mapping], now: &[Mapping]) -> Vec<Mapping> {
    let mut grown = Vec::new();
    for mapping in now {
        let mut from = mapping.from;
        let first = before.partition_point(|one| one.to <= from);
        for known in before[first..].iter().take_while(|one| one.from < mapping.to) {
            if from < known.from {
                grown.push(Mapping { from, to: known.from, ..mapping.clone() });
            }
            from = known.to;
        }
        if from < mapping.to {
            grown.push(Mapping { from, ..mapping.clone() });
        }
    }
    grown
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::PAGE;

    #[test]
    fn what_this_process_wrote_is_read_back() {
        let written: Vec<u64> = (0..100_000).map(|at| at * 0x9e37_79b9).collect();
        let live = LiveProcess::open(std::process::id()).unwrap();
        let at = written.as_ptr() as u64;
        assert_eq!(live.word(at + 8 * 77_777), Some(written[77_777]));
        let mut bytes = vec![0; 8 * written.len()];
        assert!(live.read(at, &mut bytes));
        assert!(bytes.chunks(8).zip(&written).all(|(bytes, word)| bytes == word.to_le_bytes()));
        assert!(live.pages().resident(at, at + 800_000) >= 790_000);
    }

    /// Four pages of a file. The second page is read, and the third is written to. Then all are made read-only, as
    /// after relocations.
    #[test]
    fn pages_of_a_file_are_the_files_until_they_are_written_to() {
        const BYTES: usize = PAGE as usize;
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[7; 4 * BYTES - 100]).unwrap();
        for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a new private mapping of five pages, at a place that the kernel chooses.
            let start =
                unsafe { libc::mmap(std::ptr::null_mut(), 5 * BYTES, both, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
            assert_ne!(start, libc::MAP_FAILED);
            // SAFETY: two bytes of the mapping made above, both within the file, and the protection of the mapping.
            unsafe {
                std::hint::black_box(start.cast::<u8>().add(BYTES).read_volatile());
                start.cast::<u8>().add(2 * BYTES).write_volatile(9);
                assert_eq!(libc::mprotect(start, 5 * BYTES, protection), 0);
            }
            let live = LiveProcess::open(std::process::id()).unwrap();
            let state = |page: u64| live.pages().state(start as u64 + page * PAGE);
            assert_eq!([1, 2].map(state), [Some(PageState::OfFile), Some(PageState::Resident)]);
            let mut bytes = vec![1; 4 * BYTES];
            assert!(live.read(start as u64, &mut bytes));
            let mut wanted = vec![7; 4 * BYTES];
            wanted[2 * BYTES] = 9;
            wanted[4 * BYTES - 100..].fill(0);
            assert!(bytes == wanted, "{protection}: {:?}", [0, 1, 2, 3].map(|page| bytes[page * BYTES]));
            assert!(!live.read(start as u64 + 4 * PAGE, &mut [0]), "behind the file there is nothing");
            // SAFETY: the mapping made above, which nothing else knows.
            unsafe { libc::munmap(start, 5 * BYTES) };
        }
    }

    #[test]
    fn after_its_time_nothing_is_read() {
        let word = Box::new(7_u64);
        let at = &raw const *word as u64;
        let mut live = LiveProcess::open(std::process::id()).unwrap();
        assert_eq!((live.word(at), live.is_late()), (Some(7), false));
        live.until = Some(Instant::now());
        assert_eq!((live.word(at), live.is_late()), (None, true));
        let error = LiveProcess::open_until(std::process::id(), Some(Instant::now())).unwrap_err();
        assert!(matches!(error, ProcessTrouble::Late(_)), "{error}");
    }

    #[test]
    fn what_has_grown_is_what_no_mapping_had() {
        let maps = |ranges: &[(u64, u64)]| {
            let one = |&(from, to): &(u64, u64)| Mapping { from, to, ..Mapping::default() };
            ranges.iter().map(one).collect::<Vec<_>>()
        };
        let before = maps(&[(10, 20), (30, 40), (60, 70)]);
        let now = maps(&[(5, 25), (30, 35), (50, 80), (90, 95)]);
        assert_eq!(grown(&before, &now), maps(&[(5, 10), (20, 25), (50, 60), (70, 80), (90, 95)]));
        assert_eq!(grown(&now, &now), []);
    }

    #[test]
    fn a_process_that_is_not_there() {
        let error = LiveProcess::open(0x3fff_ffff).unwrap_err();
        assert!(matches!(error, ProcessTrouble::Gone(_)), "{error}");
    }

    #[test]
    fn a_process_that_becomes_another_program_is_cut() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let mut child = Command::new("sh").args(["-c", "read x; exec cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let live = LiveProcess::open(child.id()).unwrap();
        // Its stack has pages from the begin on.
        let stack = live.mappings().iter().find(|one| one.name == "[stack]").unwrap();
        let at = live.pages().within(stack.from, stack.to).next().unwrap().from;
        assert!(live.word(at).is_some() && !live.is_cut());
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        while live.word(at).is_some() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(live.is_cut());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
