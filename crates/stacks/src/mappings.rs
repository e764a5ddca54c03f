//! The mappings of this process. In: `/proc/self/maps`, and a buffer. Out: the bounds and the kind of each mapping, and the path of
//! a mapped file.

mod query;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Its first address, and its end.
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) is_writable: bool,
    pub(crate) is_executable: bool,
    /// Whether it is the first thread's stack.
    pub(crate) is_first: bool,
}

/// Finds the mappings of two addresses, in this order. A result is all zeros if its address is not mapped. `buffer` is overwritten.
///
/// From Linux 6.11 on, the kernel answers for one address. An older kernel gives only the list of all mappings. In a process with thousands
/// of threads this takes time: each thread has two mappings, and each reads the list once.
pub(crate) fn mappings_at(addresses: [u64; 2], buffer: &mut [u8]) -> [Mapping; 2] {
    let mut found = [Mapping::default(); 2];
    let is_answered = with_file(|file| {
        for (address, found) in addresses.into_iter().zip(&mut found) {
            match query::mapping_at(file, address) {
                Some(mapping) => *found = mapping,
                None => return false,
            }
        }
        true
    });
    if !is_answered.unwrap_or(true) {
        found = [Mapping::default(); 2];
        for_each_mapping(buffer, |mapping| {
            for (address, found) in addresses.into_iter().zip(&mut found) {
                if (mapping.low..mapping.high).contains(&address) {
                    *found = mapping;
                }
            }
        });
    }
    found
}

/// Calls `tell` for each mapping. `buffer` is overwritten.
pub(crate) fn for_each_mapping(buffer: &mut [u8], mut tell: impl FnMut(Mapping)) {
    let mut line = Line::default();
    for_each_byte(buffer, |byte| line.add(byte, &mut tell));
}

/// Finds the file that is mapped at this address, and writes its path, as the kernel reports it, to the beginning of `path`. Returns the
/// path's length; 0 if there is no file, or if the path does not fit.
pub fn file_at(start: u64, path: &mut [u8]) -> usize {
    let (mut line, mut at, mut is_found, mut is_there) = (Line::default(), 0, false, false);
    for_each_byte(&mut [0; 128], |byte| {
        let is_end = byte == b'\n';
        if line.part == 3 && line.of.low == start && !is_found {
            // The text before the path has no slash.
            is_there |= byte == b'/';
            if is_end {
                is_found = true;
            } else if is_there {
                path.get_mut(at).into_iter().for_each(|place| *place = byte);
                at += 1;
            }
        }
        line.add(byte, &mut |_| ());
    });
    if at <= path.len() { at } else { 0 }
}

fn for_each_byte(buffer: &mut [u8], mut tell: impl FnMut(u8)) {
    with_file(|file| {
        loop {
            // SAFETY: reads a file into our own buffer.
            let read = unsafe { libc::syscall(libc::SYS_read, file, buffer.as_mut_ptr(), buffer.len()) };
            let Some(read) = usize::try_from(read).ok().filter(|read| *read > 0) else { break };
            buffer[..read.min(buffer.len())].iter().for_each(|byte| tell(*byte));
        }
    });
}

/// Opens the list of mappings for one use, and restores the thread's error number. `None` if the list cannot be opened.
fn with_file<T>(with: impl FnOnce(libc::c_long) -> T) -> Option<T> {
    // SAFETY: opens and closes a file; the error number is the thread's own. Bare system calls, because the C library's functions are
    // cancellation points.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let (path, flags) = (c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let file = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, 0);
        let done = (file >= 0).then(|| with(file));
        if file >= 0 {
            libc::syscall(libc::SYS_close, file);
        }
        *errno = before;
        done
    }
}

/// A line of the mappings, byte by byte: `low-high perms offset device inode   name`.
#[derive(Default)]
struct Line {
    of: Mapping,
    /// 0 in the first address, 1 in the second, 2 in the permissions, 3 after them.
    part: u8,
    /// The last eight bytes.
    last: u64,
}

impl Line {
    fn add(&mut self, byte: u8, tell: &mut impl FnMut(Mapping)) {
        let digit = || u64::from((byte as char).to_digit(16).unwrap_or(0));
        let of = &mut self.of;
        match (byte, self.part) {
            (b'\n', _) => {
                of.is_first = self.last.to_be_bytes()[1..] == *b"[stack]";
                tell(*of);
                *self = Line::default();
            }
            (b'-', 0) => self.part = 1,
            (b' ', 1) => self.part = 2,
            (b' ', 2) => self.part = 3,
            (_, 0) => of.low = of.low << 4 | digit(),
            (_, 1) => of.high = of.high << 4 | digit(),
            (b'w', 2) => of.is_writable = true,
            (b'x', 2) => of.is_executable = true,
            (_, 3) => self.last = self.last << 8 | u64::from(byte),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_byte_by_byte() {
        let text = "00400000-0040b000 r-xp 00000000 08:01 1 /bin/a\n7f00000000-7f00001000 rw-p 0 00:00 0 \n\
                    7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n";
        let (mut line, mut found) = (Line::default(), Vec::new());
        text.bytes().for_each(|byte| line.add(byte, &mut |mapping| found.push(mapping)));
        let code = Mapping { low: 0x40_0000, high: 0x40_b000, is_executable: true, ..Mapping::default() };
        let data = Mapping { low: 0x7f_0000_0000, high: 0x7f_0000_1000, is_writable: true, ..Mapping::default() };
        let stack = Mapping { low: 0x7ffc_0000_0000, high: 0x7ffc_0002_1000, is_first: true, ..data };
        assert_eq!(found, [code, data, stack]);
    }

    /// Both ways give the same: the kernel's answer for one address, and its list of all.
    #[test]
    fn a_mapping_is_found_by_an_address_in_it() {
        let (local, block) = (0_u64, Box::new(0_u64));
        let addresses = [std::ptr::from_ref(&local).addr() as u64, std::ptr::from_ref(&*block).addr() as u64];
        let mut listed = [Mapping::default(); 2];
        for_each_mapping(&mut [0; 256], |mapping| {
            for (at, address) in addresses.iter().enumerate() {
                if (mapping.low..mapping.high).contains(address) {
                    listed[at] = mapping;
                }
            }
        });
        // A neighbour may come between the two readings: only the kind and the address must be the same.
        for (found, listed) in mappings_at(addresses, &mut [0; 256]).into_iter().zip(listed) {
            assert!(found.is_writable && !found.is_executable && found.is_first == listed.is_first, "{found:?}");
        }
        for (found, address) in mappings_at(addresses, &mut [0; 256]).into_iter().zip(addresses) {
            assert!((found.low..found.high).contains(&address), "{found:?}");
        }
        assert_eq!(mappings_at([8, 16], &mut [0; 256]), [Mapping::default(); 2]);
    }

    #[test]
    fn the_file_of_a_mapping_has_an_absolute_path() {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = text.lines().find(|line| line.contains("libc.so.6")).unwrap();
        let start = u64::from_str_radix(line.split_once('-').unwrap().0, 16).unwrap();
        let mut path = [0; 512];
        let length = file_at(start, &mut path);
        assert_eq!(&path[..length], &line.as_bytes()[line.find('/').unwrap()..]);
        assert_eq!(file_at(start, &mut [0; 4]), 0, "no room");
        assert_eq!(file_at(8, &mut path), 0);
    }
}
