//! Reads a core file, which has the memory of a process at one moment, as the kernel or `gcore` wrote it: mappings, threads, pages and
//! bytes.
//!
//! A core does not say which pages were resident. Pages count as resident if they have a byte other than zero. Of
//! mapped files the core has only the first page. The constants are read from the file itself, if it begins with the
//! same page.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use allocanary_process::{BrokerRequest, FileBlocks, Opened, core, file_of};
use object::Endianness;
use object::elf::{
    ET_CORE, FileHeader64, NT_ARM_TLS, NT_AUXV, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE,
};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};

use crate::PageRun;
use crate::sparse::stored;
use crate::{Machine, Mapping, Memory, PageState, PageStates, Processor, ThreadId};

/// The memory that a core file has.
#[derive(Debug)]
pub struct CoreFile {
    file: File,
    machine: Machine,
    mappings: Vec<Mapping>,
    /// For each mapping: where its bytes are in the file, and how many of them are stored.
    places: Vec<(u64, u64)>,
    /// The mapped files that could be opened and begin with the same page as in the process.
    files: BTreeMap<u64, Rc<Opened>>,
    threads: Vec<ThreadId>,
    pages: PageStates,
    /// The process ID.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The path of its executable, if the core lists the mapped files.
    pub executable: String,
    /// For each thread its stack pointer, and all its general registers.
    pub registers: Vec<(u64, Vec<u64>)>,
    /// How many bytes are missing because the file is truncated.
    pub missing: u64,
    /// When the file was written, in seconds since 1970.
    pub written: u64,
    until: Option<Instant>,
    late: Cell<bool>,
}

/// The content of the notes.
#[derive(Default)]
struct Notes {
    /// For the first address of each mapping: its offset in the file, and the path of the file.
    files: BTreeMap<u64, (u64, String)>,
    /// The threads, each with its stack pointer and its registers.
    threads: Vec<(ThreadId, u64, Vec<u64>)>,
    pid: u32,
    name: String,
    /// The bytes of a page, by the auxiliary vector.
    page: Option<u64>,
}

/// Where `struct elf_prstatus` has what, after the process's number at 32.
struct ThreadNote {
    /// The stack pointer.
    stack: usize,
    /// The thread pointer. `None` if it has a note of its own.
    pointer: Option<usize>,
    /// The general registers.
    registers: std::ops::Range<usize>,
}

/// The process's number in `struct elf_prstatus`, and where its registers begin.
const PRSTATUS: (usize, usize) = (32, 112);

impl ThreadNote {
    fn of(processor: Processor) -> ThreadNote {
        let (_, first) = PRSTATUS;
        match processor {
            // `rsp` and `fs_base` are the 19th and 21st.
            Processor::X86_64 => {
                ThreadNote { stack: first + 19 * 8, pointer: Some(first + 21 * 8), registers: first..first + 27 * 8 }
            }
            Processor::Aarch64 => ThreadNote { stack: first + 31 * 8, pointer: None, registers: first..first + 31 * 8 },
        }
    }
}

/// The bytes of a mapped file that the core must have as well: a core has the first page of each.
const FIRST: usize = 4096;
/// Offsets in `struct elf_prpsinfo`: the process ID, and the name of up to 16 bytes.
const PRPSINFO: (usize, usize) = (24, 40);

impl CoreFile {
    /// Opens a core of a program for x86-64 or aarch64, also on the other processor. The error says what is wrong with the file. Nothing is read after the
    /// time `until`.
    pub fn open(path: &Path, until: Option<Instant>) -> io::Result<CoreFile> {
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let opened = core(path)?;
        let cache = ReadCache::new(FileBlocks::new(&opened));
        let data = &cache;
        let parsed = || -> object::read::Result<(u16, u16, Vec<Segment>, Notes)> {
            let header = FileHeader64::<Endianness>::parse(data)?;
            let endian = header.endian()?;
            let (mut segments, mut notes) = (Vec::new(), Notes::default());
            let machine = header.e_machine(endian).0;
            // Notes of other machines are read as well: the error that follows is about the machine.
            let form = ThreadNote::of(Processor::of_elf(machine).unwrap_or(Processor::X86_64));
            for one in header.program_headers(endian, data)? {
                match one.p_type(endian) {
                    PT_LOAD => segments.push(Segment {
                        from: one.p_vaddr(endian),
                        bytes: one.p_memsz(endian),
                        at: one.p_offset(endian),
                        stored: one.p_filesz(endian),
                        flags: one.p_flags(endian).0,
                    }),
                    PT_NOTE => notes.read(endian, one, data, &form),
                    _ => {}
                }
            }
            Ok((header.e_type(endian).0, machine, segments, notes))
        };
        let (kind, machine, segments, notes) =
            parsed().map_err(|error| wrong(format!("no 64-bit ELF file: {error}")))?;
        let processor = Processor::of_elf(machine).filter(|_| kind == ET_CORE.0).ok_or_else(|| {
            wrong(format!(
                "wanted a core (ELF type 4) of x86-64 or aarch64 (machine 62 or 183), found type {kind}, machine {machine}"
            ))
        })?;
        drop(cache);
        let page = notes.page.unwrap_or(Machine::X86_64.page);
        Ok(CoreFile::of(opened, segments, notes, Machine { processor, page }, until))
    }

    fn of(
        opened: Opened,
        mut segments: Vec<Segment>,
        notes: Notes,
        machine: Machine,
        until: Option<Instant>,
    ) -> CoreFile {
        let Opened { file, stamp } = opened;
        let length = stamp.bytes;
        segments
            .retain(|one| one.bytes > 0 && one.from % machine.page == 0 && one.from.checked_add(one.bytes).is_some());
        segments.sort_by_key(|one| one.from);
        segments.dedup_by(|one, before| one.from < before.from + before.bytes);
        let mut inodes: BTreeMap<&str, u64> = BTreeMap::new();
        let main_stack = notes.threads.iter().find(|(thread, ..)| thread.tid == notes.pid).map(|(_, stack, _)| *stack);
        let (mut mappings, mut places, mut missing) = (Vec::new(), Vec::new(), 0);
        for one in segments {
            let to = one.from + one.bytes;
            let (offset, name) = notes.files.get(&one.from).cloned().unwrap_or_default();
            let next = inodes.len() as u64 + 1;
            let inode = match notes.files.get(&one.from) {
                Some((_, name)) => *inodes.entry(name).or_insert(next),
                None => 0,
            };
            let is_stack = inode == 0 && main_stack.is_some_and(|stack| (one.from..to).contains(&stack));
            let there = length.saturating_sub(one.at).min(one.stored).min(one.bytes);
            missing += one.stored.min(one.bytes) - there;
            places.push((one.at, there));
            mappings.push(Mapping {
                from: one.from,
                to,
                readable: one.flags & PF_R.0 != 0,
                writable: one.flags & PF_W.0 != 0,
                executable: one.flags & PF_X.0 != 0,
                shared: false,
                offset,
                inode,
                name: if is_stack { "[stack]".into() } else { name },
            });
        }
        let executable = mappings.iter().find(|one| one.inode != 0).map(|one| one.name.clone()).unwrap_or_default();
        let threads = notes.threads.iter().map(|(thread, ..)| *thread).collect();
        let registers = notes.threads.into_iter().map(|(_, stack, registers)| (stack, registers)).collect();
        let (pid, name) = (notes.pid, notes.name);
        let mut core = CoreFile {
            file,
            machine,
            mappings,
            places,
            files: BTreeMap::new(),
            threads,
            pages: PageStates::default(),
            pid,
            name,
            executable,
            registers,
            missing,
            written: stamp.modified.0.max(0) as u64,
            until,
            late: Cell::new(false),
        };
        core.open_files();
        core.pages = core.full_pages();
        for at in 0..core.threads.len() {
            let pointer = core.threads[at].pointer;
            core.threads[at].pointer = pointer.filter(|pointer| core.is_thread_pointer(*pointer));
        }
        core
    }

    /// Whether a thread pointer is valid. On x86-64 its structure has its own address in it, twice. On aarch64 only its variables are there.
    fn is_thread_pointer(&self, pointer: u64) -> bool {
        match self.machine.processor {
            Processor::X86_64 => {
                [0, 16].iter().all(|at| pointer.checked_add(*at).and_then(|at| self.word(at)) == Some(pointer))
            }
            Processor::Aarch64 => self.mapping(pointer).is_some_and(|one| one.readable && one.writable && !one.shared),
        }
    }

    /// Opens the mapped files that begin with the page that the core has. This page has the build-id.
    fn open_files(&mut self) {
        for (mapping, (at, there)) in self.mappings.iter().zip(&self.places) {
            if mapping.inode == 0 || mapping.offset != 0 || *there < FIRST as u64 {
                continue;
            }
            let (mut here, mut first) = ([0; FIRST], [0; FIRST]);
            let Ok(file) = file_of(&BrokerRequest::Library(mapping.name.clone())).map(Rc::new) else { continue };
            let read = file.file.read_exact_at(&mut here, 0).and_then(|()| self.file.read_exact_at(&mut first, *at));
            if read.is_ok() && here == first {
                self.files.insert(mapping.inode, file);
            }
        }
    }

    /// The file of a mapping, if it could be opened and begins with the same page as in the process.
    pub fn file(&self, mapping: &Mapping) -> Option<Rc<Opened>> {
        self.files.get(&mapping.inode).cloned()
    }

    /// The paths of the program and its libraries whose files are not on this host, or may differ. The program is the first one.
    pub fn absent_files(&self) -> Vec<String> {
        // `gcore` leaves out code, so a mapping without a right to execute can still be of a program. Data files are mapped too, and must
        // not be listed.
        let is_program = |mapping: &Mapping| {
            let begin = if mapping.offset == 0 { self.word(mapping.from) } else { None };
            mapping.executable || begin.is_some_and(|begin| begin.to_le_bytes().starts_with(b"\x7fELF"))
        };
        let mut absent: Vec<String> = Vec::new();
        for mapping in self.mappings.iter().filter(|one| one.inode != 0 && !self.files.contains_key(&one.inode)) {
            if !absent.contains(&mapping.name) && is_program(mapping) {
                absent.push(mapping.name.clone());
            }
        }
        absent
    }

    /// Whether the time for reading is over. If so, this is also stored.
    fn is_over(&self) -> bool {
        let over = self.until.is_some_and(|until| Instant::now() >= until);
        self.late.set(self.late.get() || over);
        over
    }

    /// The pages of private writable mappings that have a byte other than zero.
    fn full_pages(&self) -> PageStates {
        const PIECE: u64 = 1 << 20;
        let size = self.machine.page;
        let mut pages = PageStates::default();
        let mut bytes = vec![0; PIECE as usize];
        for (mapping, (at, there)) in self.mappings.iter().zip(&self.places) {
            // The process has not written the bytes of a read-only file mapping.
            if !mapping.writable && mapping.inode != 0 {
                continue;
            }
            // A hole of the file has only zeroes. A stored range may begin in the middle of a page.
            let all = *at..at + there / size * size;
            for stored in stored(&self.file, all.clone()) {
                let first = at + (stored.start - at) / size * size;
                let last = (at + (stored.end - at).next_multiple_of(size)).min(all.end);
                for place in (first..last).step_by(PIECE as usize) {
                    let bytes = &mut bytes[..(last - place).min(PIECE) as usize];
                    if self.is_over() || self.file.read_exact_at(bytes, place).is_err() {
                        break;
                    }
                    for (number, page) in (0..).zip(bytes.chunks_exact(size as usize)) {
                        let from = mapping.from + (place - at) + number * size;
                        if page.iter().any(|byte| *byte != 0) {
                            pages.push(PageRun { from, to: from + size, state: PageState::Resident });
                        }
                    }
                }
            }
        }
        pages
    }
}

/// A range of memory that the core describes.
struct Segment {
    from: u64,
    bytes: u64,
    at: u64,
    stored: u64,
    flags: u32,
}

impl Notes {
    fn read<'data>(
        &mut self,
        endian: Endianness,
        segment: &object::elf::ProgramHeader64<Endianness>,
        data: impl ReadRef<'data>,
        form: &ThreadNote,
    ) {
        let Ok(Some(mut notes)) = segment.notes(endian, data) else { return };
        while let Ok(Some(note)) = notes.next() {
            let desc = note.desc();
            match note.n_type(endian) {
                NT_PRSTATUS => {
                    if let (Some(tid), Some(stack)) = (number(desc, PRSTATUS.0), word(desc, form.stack)) {
                        let registers = form.registers.clone().step_by(8).filter_map(|at| word(desc, at)).collect();
                        let pointer = form.pointer.and_then(|at| word(desc, at));
                        self.threads.push((ThreadId { tid, pointer }, stack, registers));
                    }
                }
                // It follows the thread's registers.
                NT_ARM_TLS if form.pointer.is_none() => {
                    if let Some((thread, ..)) = self.threads.last_mut() {
                        thread.pointer = word(desc, 0);
                    }
                }
                NT_AUXV => self.page = page_in(desc),
                NT_PRPSINFO => {
                    let (pid, name) = PRPSINFO;
                    self.pid = number(desc, pid).unwrap_or_default();
                    let name = desc.get(name..name + 16).unwrap_or_default();
                    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                    self.name = String::from_utf8_lossy(name).into_owned();
                }
                NT_FILE => self.files = mapped_files(desc).unwrap_or_default(),
                _ => {}
            }
        }
    }
}

/// The bytes of a page, among the pairs of the auxiliary vector.
fn page_in(vector: &[u8]) -> Option<u64> {
    const AT_PAGESZ: u64 = 6;
    let mut pairs = (0..vector.len()).step_by(16).map(|at| (word(vector, at), word(vector, at + 8)));
    let (_, page) = pairs.find(|(key, _)| *key == Some(AT_PAGESZ))?;
    page.filter(|page| page.is_power_of_two() && (4 << 10..=64 << 10).contains(page))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Reads the list of mapped files. It has a count and the size of a page; for each mapping its start, its end, and its
/// offset in the file, in pages; then the paths, each ending with a zero.
fn mapped_files(desc: &[u8]) -> Option<BTreeMap<u64, (u64, String)>> {
    let (count, page) = (word(desc, 0)?, word(desc, 8)?);
    let table = usize::try_from(count.checked_mul(24)?).ok()?.checked_add(16)?;
    let mut paths = desc.get(table..)?.split(|byte| *byte == 0);
    let mut files = BTreeMap::new();
    for at in (16..table).step_by(24) {
        let path = String::from_utf8_lossy(paths.next()?).into_owned();
        files.insert(word(desc, at)?, (word(desc, at + 16)?.checked_mul(page)?, path));
    }
    Some(files)
}

impl Memory for CoreFile {
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

    fn is_late(&self) -> bool {
        self.late.get()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        if self.is_over() {
            return false;
        }
        let Some(end) = at.checked_add(into.len() as u64) else { return false };
        let mut from = at;
        while from < end {
            let after = self.mappings.partition_point(|one| one.from <= from);
            let Some(index) = after.checked_sub(1) else { return false };
            let (mapping, (place, there)) = (&self.mappings[index], self.places[index]);
            if from >= mapping.to {
                return false;
            }
            let within = from - mapping.from;
            let stored = within < there;
            let to = end.min(if stored { mapping.from + there } else { mapping.to });
            let part = &mut into[(from - at) as usize..(to - at) as usize];
            let read = match (stored, self.files.get(&mapping.inode)) {
                (true, _) => self.file.read_exact_at(part, place + within),
                (false, Some(file)) if !mapping.writable => file.file.read_exact_at(part, mapping.offset + within),
                _ => return false,
            };
            if read.is_err() {
                return false;
            }
            from = to;
        }
        true
    }
}
