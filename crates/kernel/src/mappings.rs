//! Sums `/proc/PID/smaps` up by the kind of mapping. In: the text in pieces, cut anywhere. Out: bytes by kind. Allocates
//! nothing.
//!
//! A thread's stack has no name. It is known by its guard: an inaccessible page directly below it. The C library of later
//! kernels may guard stacks without a mapping; stacks then count as heap.

use allocanary_kernel::sys::first_number;

/// Resident bytes by kind of mapping.
#[derive(Debug)]
pub struct Mappings {
    /// Private mappings of files, and the data that follows them without a name (bss).
    pub program: u64,
    /// Stacks.
    pub stacks: u64,
    /// Other anonymous mappings, the break included.
    pub heap: u64,
    /// Shared mappings.
    pub other: u64,
    /// Of the heap, in transparent huge pages.
    pub huge: u64,
    line: [u8; LONGEST],
    length: usize,
    now: Option<Mapping>,
    /// The kind and the end of the mapping before.
    before: (Kind, u64),
}

/// A line's beginning is enough: a header's path comes last, and its first letter tells the kind.
const LONGEST: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Program,
    Stack,
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
    end: u64,
    rss: u64,
    huge: u64,
}

impl Default for Mappings {
    fn default() -> Self {
        Mappings {
            program: 0,
            stacks: 0,
            heap: 0,
            other: 0,
            huge: 0,
            line: [0; LONGEST],
            length: 0,
            now: None,
            before: (Kind::Nothing, 0),
        }
    }
}

impl Mappings {
    /// Takes the next piece of the text.
    pub fn take(&mut self, piece: &[u8]) {
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
    pub fn end(&mut self) {
        self.end_line();
        self.end_mapping();
    }

    fn end_line(&mut self) {
        let line = self.line;
        let line = &line[..std::mem::take(&mut self.length)];
        let kib = |key: &[u8]| first_number(line.strip_prefix(key)?).map(|kib| kib * 1024);
        if let Some(header) = Header::of(line) {
            self.end_mapping();
            self.now = Some(Mapping { kind: self.kind(&header), end: header.end, rss: 0, huge: 0 });
        } else if let Some(now) = &mut self.now {
            if let Some(bytes) = kib(b"Rss:") {
                now.rss = bytes;
            } else if let Some(bytes) = kib(b"AnonHugePages:") {
                now.huge = bytes;
            }
        }
    }

    fn kind(&self, header: &Header) -> Kind {
        let (kind, end) = self.before;
        let follows = end == header.start;
        match header.name.first() {
            _ if header.shared => Kind::Other,
            Some(b'/') => Kind::Program,
            Some(_) if header.name.starts_with(b"[stack") => Kind::Stack,
            Some(_) if header.name.starts_with(b"[heap") || header.name.starts_with(b"[anon") => Kind::Heap,
            Some(_) => Kind::Other,
            None if !header.readable && header.end - header.start <= MOST_GUARD => Kind::Guard,
            None if !header.readable => Kind::Nothing,
            None if follows && kind == Kind::Guard => Kind::Stack,
            None if follows && kind == Kind::Program => Kind::Program,
            None => Kind::Heap,
        }
    }

    fn end_mapping(&mut self) {
        let Some(mapping) = self.now.take() else { return };
        match mapping.kind {
            Kind::Program => self.program += mapping.rss,
            Kind::Stack => self.stacks += mapping.rss,
            Kind::Heap => {
                self.heap += mapping.rss;
                self.huge += mapping.huge;
            }
            Kind::Other | Kind::Guard | Kind::Nothing => self.other += mapping.rss,
        }
        self.before = (mapping.kind, mapping.end);
    }
}

/// The largest page is 64 KiB.
const MOST_GUARD: u64 = 64 << 10;

/// `7f00-7f10 rw-p 00000000 00:00 0    /path`.
struct Header<'a> {
    start: u64,
    end: u64,
    readable: bool,
    shared: bool,
    name: &'a [u8],
}

impl Header<'_> {
    fn of(line: &[u8]) -> Option<Header<'_>> {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let addresses = words.next()?;
        let dash = addresses.iter().position(|byte| *byte == b'-')?;
        let (start, end) = (hexadecimal(&addresses[..dash])?, hexadecimal(&addresses[dash + 1..])?);
        let rights = words.next()?;
        // The name follows offset, device and inode.
        let name = words.nth(3).unwrap_or_default();
        Some(Header { start, end, readable: rights.first() == Some(&b'r'), shared: rights.get(3) == Some(&b's'), name })
    }
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let digit = |byte: &u8| (*byte as char).to_digit(16).map(u64::from);
    text.iter().try_fold(0_u64, |number, byte| Some(number.checked_mul(16)? + digit(byte)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
555500000000-555500010000 r-xp 00000000 fe:00 12   /usr/bin/my program\nSize: 64 kB\nRss: 60 kB\nAnonHugePages: 0 kB\n\
555500010000-555500012000 rw-p 00000000 00:00 0 \nRss: 8 kB\nVmFlags: rd wr mr\n\
555500020000-555500041000 rw-p 00000000 00:00 0    [heap]\nRss: 100 kB\n\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \nRss: 2048 kB\nAnonHugePages: 2048 kB\n\
7f0000200000-7f0004000000 ---p 00000000 00:00 0 \nRss: 0 kB\n\
7f0005000000-7f0005001000 ---p 00000000 00:00 0 \nRss: 0 kB\n\
7f0005001000-7f0005201000 rw-p 00000000 00:00 0 \nRss: 12 kB\n\
7f0006000000-7f0006100000 rw-s 00000000 00:01 9    /dev/zero (deleted)\nRss: 4 kB\n\
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0    [stack]\nRss: 20 kB\n\
7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0    [vdso]\nRss: 1 kB\n";

    #[test]
    fn every_mapping_has_one_kind() {
        for piece in [1, 7, 100, 10_000] {
            let mut found = Mappings::default();
            TEXT.as_bytes().chunks(piece).for_each(|piece| found.take(piece));
            found.end();
            let kib = [found.program, found.stacks, found.heap, found.other, found.huge].map(|bytes| bytes / 1024);
            assert_eq!(kib, [68, 32, 2148, 5, 2048], "pieces of {piece}");
        }
    }

    #[test]
    fn fuzz_no_text_makes_it_panic() {
        allocanary_testing::fuzz::holds(256, 3, "[0-9a-f \\-rwp/\\[RsAnonHugePages:\n]{0,200}", |text| {
            let mut found = Mappings::default();
            found.take(text.as_bytes());
            found.end();
        });
    }
}
