//! Adds up `/proc/PID/smaps` by the kind of mapping. The text can come in pieces that are cut anywhere. Allocates nothing.
//!
//! Two kinds have no name. They are recognised by the mapping directly below them: a thread's stack by its guard, an
//! inaccessible page; the bss by the writable data of its file. The kernel joins adjacent anonymous mappings, so heap
//! above a stack or above the bss of a library may be in the same mapping. From Linux 6.7 on the kernel marks stacks
//! (`nh`, no huge pages) and does not join them with heap. A mapping without a mark counts as a stack up to 8 MiB, and a
//! mapping after a library as its bss up to 1 MiB. Later C libraries may guard stacks without a mapping; such stacks count
//! as heap.

use super::lines;
use super::maps::{self, MapsEntry};
use super::smaps::MappingBytes;

/// Resident bytes by kind of mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    /// Private mappings of files, and the data without a name that follows them (bss).
    pub program: u64,
    /// Stacks.
    pub stacks: u64,
    /// Other anonymous mappings, including the break.
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

/// The state after the lines that were read.
#[derive(Default)]
struct Reader {
    found: Mappings,
    now: Option<Mapping>,
    before: Option<Mapping>,
    /// The inode of the first file, which is the program. Nothing is mapped directly above its bss.
    program: Option<u64>,
}

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
    counts: MappingBytes,
}

impl Mappings {
    /// The mappings of this process. Allocates nothing.
    pub fn own() -> std::io::Result<Mappings> {
        Mappings::read("/proc/self/smaps")
    }

    /// The mappings of a process.
    pub fn read_of(pid: u32) -> std::io::Result<Mappings> {
        Mappings::read(&format!("/proc/{pid}/smaps"))
    }

    fn read(path: &str) -> std::io::Result<Mappings> {
        let mut reader = Reader::default();
        lines::each(path, |line| reader.take(line))?;
        Ok(reader.end())
    }

    /// The mappings in the text of `maps`, with counts from another source: `count` gets the begin of a mapping and returns its counts. The
    /// text of `maps` does not have the marks of stacks.
    pub fn of(maps: &[u8], count: impl Fn(u64) -> MappingBytes) -> Mappings {
        let mut reader = Reader::default();
        for line in maps::lines(maps) {
            reader.begin(&line, count(line.from));
        }
        reader.end()
    }

    /// The sum of all kinds: the resident memory of the process.
    pub fn rss(&self) -> u64 {
        self.program + self.stacks + self.heap + self.other
    }
}

impl Reader {
    /// Takes the next line.
    fn take(&mut self, line: &[u8]) {
        if let Some(header) = MapsEntry::of(line) {
            self.begin(&header, MappingBytes::default());
        } else if let Some(now) = &mut self.now {
            now.counts.take(line);
        }
    }

    /// Begins a mapping. A mapping that grew while the kernel wrote the text can be there twice: the last one counts.
    fn begin(&mut self, header: &MapsEntry, counts: MappingBytes) {
        if self.now.is_some_and(|now| (now.start..now.end).contains(&header.from)) {
            self.now = None;
        }
        self.end_mapping();
        self.now = Some(self.begun(header, counts));
    }

    /// Ends the text.
    fn end(mut self) -> Mappings {
        self.end_mapping();
        self.found
    }

    fn begun(&mut self, header: &MapsEntry, counts: MappingBytes) -> Mapping {
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
            counts,
        }
    }

    fn kind(&self, header: &MapsEntry) -> Kind {
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
        let [rss, huge, lazy, swap] =
            [mapping.counts.resident, mapping.counts.huge, mapping.counts.lazy, mapping.counts.swapped]
                .map(Option::unwrap_or_default);
        self.found.swap += swap;
        let is_stack = mapping.counts.is_refused || mapping.end - mapping.start <= MOST_STACK;
        match mapping.kind {
            Kind::Program => self.found.program += rss,
            Kind::Stack => self.found.stacks += rss,
            Kind::Guarded if is_stack => self.found.stacks += rss,
            Kind::Heap | Kind::Guarded => {
                self.found.heap += rss;
                self.found.huge += huge;
                self.found.lazy += lazy;
                if mapping.is_break {
                    self.found.brk += rss;
                }
            }
            Kind::Other | Kind::Guard | Kind::Nothing => self.found.other += rss,
        }
        self.before = Some(mapping);
    }
}

/// The longest guard: the largest page size, 64 KiB.
const MOST_GUARD: u64 = 64 << 10;
/// The longest stack without a mark: the default size of a thread's stack, if `ulimit -s` was not changed.
const MOST_STACK: u64 = 8 << 20;
/// The longest bss of a library. About ten of 1,900 libraries of Debian have more: sanitizers and graphics drivers.
const MOST_BSS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::super::lines::Lines;
    use super::*;

    fn of_text(text: &str) -> Mappings {
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.take(line.as_bytes()));
        reader.end()
    }

    #[test]
    fn a_mapping_that_is_told_twice_because_it_grew_counts_once() {
        let found = of_text(
            "1000-3000 rw-p 0 00:0 0 [heap]\nRss: 8 kB\nSwap: 4 kB\n1000-4000 rw-p 0 00:0 0 [heap]\nRss: 12 kB\nSwap: 4 kB\n\
             5000-6000 rw-p 0 00:0 0\nRss: 4 kB\n",
        );
        assert_eq!((found.brk, found.heap, found.rss(), found.swap), (12 << 10, 16 << 10, 16 << 10, 4 << 10));
    }

    #[test]
    fn what_somebody_else_has_counted_is_summed_up_by_kind() {
        let maps =
            b"1000-2000 r-xp 0 08:01 7 /bin/a\n2000-3000 rw-p 0 08:01 7 /bin/a\n9000-f000 rw-p 0 00:0 0 [heap]\n\
                     10000-11000 ---p 0 00:0 0 \n11000-19000 rw-p 0 00:0 0 \n30000-40000 rw-p 0 00:0 0 \n";
        let counts = |at: u64| MappingBytes {
            resident: Some(at),
            huge: Some(at / 0x1000),
            swapped: Some(1),
            ..MappingBytes::default()
        };
        let found = Mappings::of(maps, counts);
        assert_eq!((found.program, found.stacks, found.brk, found.heap), (0x3000, 0x11000, 0x9000, 0x39000));
        assert_eq!((found.other, found.huge, found.swap), (0x10000, 0x39, 6));
    }
    use crate::sys::{map_zeroed, unmap};

    fn own() -> Mappings {
        Mappings::own().unwrap()
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
            let (mut reader, mut lines) = (Reader::default(), Lines::new());
            TEXT.as_bytes().chunks(piece).for_each(|piece| lines.take(piece, |line| reader.take(line)));
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
            of_text(&text);
        });
    }

    /// The result of `lines`, in KiB: program, stacks, heap.
    fn kinds(lines: &[&str]) -> [u64; 3] {
        let found = of_text(&lines.join("\n"));
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
        let all = || MappingBytes::own().unwrap().resident.unwrap();
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
