//! Sums `/proc/PID/smaps` up by the kind of mapping. In: a process, or the text in pieces, cut anywhere. Out: bytes by
//! kind. Allocates nothing.
//!
//! Two kinds have no name. They are recognised by the mapping directly below them: a thread's stack by its guard, an
//! inaccessible page; the bss by the writable data of its file. The kernel joins adjacent anonymous mappings, so heap
//! above a stack or above the bss of a library may be in the same mapping. From Linux 6.7 on the kernel marks stacks
//! (`nh`, no huge pages) and does not join them with heap. A mapping without a mark counts as a stack up to 8 MiB, and a
//! mapping after a library as its bss up to 1 MiB. Later C libraries may guard stacks without a mapping; such stacks count
//! as heap.

use std::fs::File;
use std::io::{ErrorKind, Read};

use super::maps::Line;
use crate::sys::first_number;

/// Resident bytes by kind of mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    /// Private mappings of files, and the data that follows them without a name (bss).
    pub program: u64,
    /// Stacks.
    pub stacks: u64,
    /// Other anonymous mappings, the break included.
    pub heap: u64,
    /// The part of the heap that is in the break (`[heap]`).
    pub brk: u64,
    /// Shared mappings.
    pub other: u64,
    /// The part of the heap that is in transparent huge pages.
    pub huge: u64,
    /// The part of the heap that was given back lazily (MADV_FREE). It is resident until the kernel needs it.
    pub lazy: u64,
    /// Bytes of all mappings in swap. They are not resident, and are in no kind.
    pub swap: u64,
}

/// The counts of a mapping, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Resident.
    pub resident: u64,
    /// The part of it in huge pages.
    pub huge: u64,
    /// In swap.
    pub swapped: u64,
}

/// The state after the pieces that were read.
struct Reader {
    found: Mappings,
    line: [u8; LONGEST],
    length: usize,
    now: Option<Mapping>,
    before: Option<Mapping>,
    /// The inode of the first file, which is the program. Nothing is mapped directly above its bss.
    program: Option<u64>,
}

/// The beginning of a line is enough: a header's path comes last, and its first letter gives the kind.
const LONGEST: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Program,
    Stack,
    /// A stack, because a guard is below it.
    Guarded,
    Heap,
    Other,
    /// One inaccessible page.
    Guard,
    /// Other inaccessible addresses.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    kind: Kind,
    is_break: bool,
    is_writable: bool,
    inode: u64,
    start: u64,
    end: u64,
    /// No huge pages.
    marked: bool,
    rss: u64,
    huge: u64,
    lazy: u64,
}

impl Mappings {
    /// The mappings of a process, from a file such as `/proc/self/smaps`. The path must be shorter than 384 bytes: std
    /// opens such paths from the stack.
    pub fn read(path: &str) -> std::io::Result<Mappings> {
        let mut file = File::open(path)?;
        let mut reader = Reader::new();
        let mut buffer = [0; 4096];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(reader.end()),
                Ok(length) => reader.take(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The same from the text of `maps` and counts of another source: `count` returns those of the mapping that begins at an address.
    /// This text does not have the marks of stacks.
    pub fn of(maps: &[u8], count: impl Fn(u64) -> Counts) -> Mappings {
        let mut reader = Reader::new();
        for line in maps.split_inclusive(|byte| *byte == b'\n') {
            reader.take(line);
            if let Some(now) = &mut reader.now {
                let counts = count(now.start);
                (now.rss, now.huge) = (counts.resident, counts.huge);
                reader.found.swap += counts.swapped;
            }
        }
        reader.end()
    }

    /// The sum of all kinds: the resident memory of the process.
    pub fn rss(&self) -> u64 {
        self.program + self.stacks + self.heap + self.other
    }
}

impl Reader {
    fn new() -> Reader {
        Reader { found: Mappings::default(), line: [0; LONGEST], length: 0, now: None, before: None, program: None }
    }

    /// Takes the next piece of the text.
    fn take(&mut self, piece: &[u8]) {
        for byte in piece {
            if *byte == b'\n' {
                self.end_line();
            } else if self.length < LONGEST {
                self.line[self.length] = *byte;
                self.length += 1;
            }
        }
    }

    /// The text is over.
    fn end(mut self) -> Mappings {
        self.end_line();
        self.end_mapping();
        self.found
    }

    fn end_line(&mut self) {
        let line = self.line;
        let line = &line[..std::mem::take(&mut self.length)];
        let kib = |key: &[u8]| first_number(line.strip_prefix(key)?).map(|kib| kib * 1024);
        if let Some(header) = Line::of(line) {
            self.end_mapping();
            self.now = Some(self.begun(&header));
        } else if let Some(now) = &mut self.now {
            if let Some(bytes) = kib(b"Rss:") {
                now.rss = bytes;
            } else if let Some(bytes) = kib(b"AnonHugePages:") {
                now.huge = bytes;
            } else if let Some(bytes) = kib(b"LazyFree:") {
                now.lazy = bytes;
            } else if let Some(bytes) = kib(b"Swap:") {
                self.found.swap += bytes;
            } else if let Some(flags) = line.strip_prefix(b"VmFlags:") {
                now.marked = flags.split(|byte| *byte == b' ').any(|flag| flag == b"nh");
            }
        }
    }

    fn begun(&mut self, header: &Line) -> Mapping {
        let kind = self.kind(header);
        // The bss has the inode of its file.
        let inode = match self.before {
            Some(before) if kind == Kind::Program && header.inode == 0 => before.inode,
            _ => header.inode,
        };
        if kind == Kind::Program {
            self.program.get_or_insert(inode);
        }
        Mapping {
            kind,
            is_break: header.name.starts_with(b"[heap"),
            is_writable: header.writable,
            inode,
            start: header.from,
            end: header.to,
            marked: false,
            rss: 0,
            huge: 0,
            lazy: 0,
        }
    }

    fn kind(&self, header: &Line) -> Kind {
        let length = header.to - header.from;
        let below = self.before.filter(|before| before.end == header.from);
        match header.name.first() {
            _ if header.shared => Kind::Other,
            Some(b'/') => Kind::Program,
            Some(_) if header.name.starts_with(b"[stack") => Kind::Stack,
            Some(_) if header.name.starts_with(b"[heap") || header.name.starts_with(b"[anon") => Kind::Heap,
            Some(_) => Kind::Other,
            None if !header.readable && length <= MOST_GUARD => Kind::Guard,
            None if !header.readable => Kind::Nothing,
            None => match below {
                Some(below) if below.kind == Kind::Guard => Kind::Guarded,
                Some(below) if below.kind == Kind::Program && below.is_writable => {
                    let is_bss = length <= MOST_BSS || self.program == Some(below.inode);
                    if is_bss { Kind::Program } else { Kind::Heap }
                }
                _ => Kind::Heap,
            },
        }
    }

    fn end_mapping(&mut self) {
        let Some(mapping) = self.now.take() else { return };
        let is_stack = mapping.marked || mapping.end - mapping.start <= MOST_STACK;
        match mapping.kind {
            Kind::Program => self.found.program += mapping.rss,
            Kind::Stack => self.found.stacks += mapping.rss,
            Kind::Guarded if is_stack => self.found.stacks += mapping.rss,
            Kind::Heap | Kind::Guarded => {
                self.found.heap += mapping.rss;
                self.found.huge += mapping.huge;
                self.found.lazy += mapping.lazy;
                if mapping.is_break {
                    self.found.brk += mapping.rss;
                }
            }
            Kind::Other | Kind::Guard | Kind::Nothing => self.found.other += mapping.rss,
        }
        self.before = Some(mapping);
    }
}

/// The largest page is 64 KiB.
const MOST_GUARD: u64 = 64 << 10;
/// The default size of a thread's stack if `ulimit -s` was not changed.
const MOST_STACK: u64 = 8 << 20;
/// Some ten of 1,900 libraries of Debian have more: sanitizers and graphics drivers.
const MOST_BSS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_has_counted_is_summed_up_by_kind() {
        let maps =
            b"1000-2000 r-xp 0 08:01 7 /bin/a\n2000-3000 rw-p 0 08:01 7 /bin/a\n9000-f000 rw-p 0 00:0 0 [heap]\n\
                     10000-11000 ---p 0 00:0 0 \n11000-19000 rw-p 0 00:0 0 \n30000-40000 rw-p 0 00:0 0 \n";
        let counts = |at: u64| Counts { resident: at, huge: at / 0x1000, swapped: 1 };
        let found = Mappings::of(maps, counts);
        assert_eq!((found.program, found.stacks, found.brk, found.heap), (0x3000, 0x11000, 0x9000, 0x39000));
        assert_eq!((found.other, found.huge, found.swap), (0x10000, 0x39, 6));
    }
    use crate::sys::{line_number, map_zeroed, read_into, unmap};

    fn own() -> Mappings {
        Mappings::read("/proc/self/smaps").unwrap()
    }

    const TEXT: &str = "\
555500000000-555500010000 rw-p 00000000 fe:00 12   /usr/bin/my program\nSize: 64 kB\nRss: 60 kB\nAnonHugePages: 0 kB\n\
555500010000-555500012000 rw-p 00000000 00:00 0 \nRss: 8 kB\nVmFlags: rd wr mr\n\
555500020000-555500041000 rw-p 00000000 00:00 0    [heap]\nRss: 100 kB\nSwap: 12 kB\nSwapPss: 12 kB\n\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \nRss: 2048 kB\nLazyFree: 64 kB\nAnonHugePages: 2048 kB\n\
7f0000200000-7f0004000000 ---p 00000000 00:00 0 \nRss: 0 kB\n\
7f0005000000-7f0005001000 ---p 00000000 00:00 0 \nRss: 0 kB\n\
7f0005001000-7f0005201000 rw-p 00000000 00:00 0 \nRss: 12 kB\n\
7f0006000000-7f0006100000 rw-s 00000000 00:01 9    /dev/zero (deleted)\nRss: 4 kB\n\
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0    [stack]\nRss: 20 kB\n\
7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0    [vdso]\nRss: 1 kB\n";

    #[test]
    fn every_mapping_has_one_kind() {
        for piece in [1, 7, 100, 10_000] {
            let mut reader = Reader::new();
            TEXT.as_bytes().chunks(piece).for_each(|piece| reader.take(piece));
            let found = reader.end();
            let kib = [found.program, found.stacks, found.heap, found.other, found.rss()].map(|bytes| bytes / 1024);
            assert_eq!(kib, [68, 32, 2148, 5, 2253], "pieces of {piece}");
            let of_it = [found.brk, found.huge, found.lazy, found.swap].map(|bytes| bytes / 1024);
            assert_eq!(of_it, [100, 2048, 64, 12], "pieces of {piece}");
        }
    }

    #[test]
    fn what_ends_before_it_starts_is_no_mapping() {
        assert_eq!(kinds(&["2000-1000 rw-p 00000000 00:00 0", "Rss: 4 kB"]), [0, 0, 0]);
    }

    #[test]
    fn fuzz_no_text_makes_it_panic() {
        allocanary_testing::fuzz::holds(256, 3, "[0-9a-f \\-rwp/\\[RsAnonHugePages:\n]{0,200}", |text| {
            let mut reader = Reader::new();
            reader.take(text.as_bytes());
            reader.end();
        });
    }

    /// The result of `lines`, in KiB: program, stacks, heap.
    fn kinds(lines: &[&str]) -> [u64; 3] {
        let mut reader = Reader::new();
        lines.iter().for_each(|line| reader.take(format!("{line}\n").as_bytes()));
        let found = reader.end();
        [found.program, found.stacks, found.heap].map(|bytes| bytes / 1024)
    }

    #[test]
    fn heap_above_a_file_or_a_stack_is_heap() {
        let program = ["400000-401000 rw-p 00000000 fe:00 7 /program", "Rss: 4 kB"];
        let bss = ["401000-4000000 rw-p 00000000 00:00 0", "Rss: 40000 kB"];
        assert_eq!(kinds(&[program, bss].concat()), [40_004, 0, 0], "the bss of the program may be large");
        let more = ["4000000-8000000 rw-p 00000000 00:00 0", "Rss: 100 kB"];
        assert_eq!(kinds(&[program, bss, more].concat()), [40_104, 0, 0], "and in two mappings");
        let closed = ["401000-4000000 ---p 00000000 00:00 0", "Rss: 100 kB"];
        assert_eq!(kinds(&[program, closed].concat()), [4, 0, 0], "what cannot be read is no heap");

        let library = ["7f0000000000-7f0000001000 rw-p 00000000 fe:00 8 /library", "Rss: 4 kB"];
        let small = ["7f0000001000-7f0000101000 rw-p 00000000 00:00 0", "Rss: 900 kB"];
        let large = ["7f0000001000-7f0000102000 rw-p 00000000 00:00 0", "Rss: 900 kB"];
        assert_eq!(kinds(&[program, library, small].concat()), [908, 0, 0]);
        assert_eq!(kinds(&[program, library, large].concat()), [8, 0, 900]);

        let read_only = ["7f0000000000-7f0000001000 r--p 00000000 fe:00 8 /library", "Rss: 4 kB"];
        assert_eq!(kinds(&[program, read_only, small].concat()), [8, 0, 900], "no bss follows what cannot be written");

        let guard = ["7f0000000000-7f0000001000 ---p 00000000 00:00 0", "Rss: 0 kB"];
        let default = ["7f0000001000-7f0000801000 rw-p 00000000 00:00 0", "Rss: 30 kB", "VmFlags: rd wr mr mw me ac"];
        let joined = ["7f0000001000-7f0000802000 rw-p 00000000 00:00 0", "Rss: 30 kB", "VmFlags: rd wr mr mw me ac"];
        let marked = ["7f0000001000-7f0000802000 rw-p 00000000 00:00 0", "Rss: 30 kB", "VmFlags: rd wr mr mw me nh"];
        assert_eq!(
            [default, joined, marked].map(|stack| kinds(&[&guard[..], &stack].concat())),
            [[0, 30, 0], [0, 0, 30], [0, 30, 0]]
        );
    }

    /// Whether `holds` returns true at least once. Other tests of this process map, unmap and start threads at the same
    /// time.
    fn soon(holds: impl Fn() -> bool) -> bool {
        (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            holds()
        })
    }

    #[test]
    fn the_kinds_add_up_to_what_the_kernel_says_of_all() {
        let all = || {
            let mut buffer = [0; 2048];
            line_number(read_into("/proc/self/smaps_rollup", &mut buffer).unwrap(), b"Rss:").unwrap() * 1024
        };
        assert!(soon(|| own().rss().abs_diff(all()) < 1 << 20), "{:?} of {}", own(), all());
        let found = own();
        assert!(found.program > 1 << 19 && found.stacks > 0, "{found:?}");
    }

    #[test]
    fn what_a_thread_writes_on_its_stack_is_stack() {
        // A function of its own: the pages of a large frame are touched when it is entered.
        #[inline(never)]
        fn deep() -> u64 {
            let frame = std::hint::black_box([1_u8; 4 << 20]);
            let stacks = own().stacks;
            std::hint::black_box(&frame);
            stacks
        }
        assert!(soon(|| {
            let used = std::thread::Builder::new().stack_size(16 << 20).spawn(|| {
                let before = own().stacks;
                deep().saturating_sub(before)
            });
            used.unwrap().join().unwrap() > 3 << 20
        }));
    }

    #[test]
    fn an_anonymous_mapping_is_heap() {
        assert!(soon(|| {
            let before = own().heap;
            let length = 64 << 20;
            let start = map_zeroed(length).unwrap();
            // SAFETY: as long as it was mapped, and nobody else has it.
            unsafe { start.write_bytes(1, length) };
            let after = own().heap;
            // SAFETY: it is of that length, and not used any more.
            unsafe { unmap(start, length) };
            after.saturating_sub(before) > 60 << 20
        }));
    }
}
