//! Parses the lines of `/proc/PID/maps`, which are also the first lines of the mappings in `smaps`. The parser allocates nothing.

use std::io::Result;

use crate::sys::{first_number, read_whole};

/// The text of a process's mappings.
pub fn read(pid: u32) -> Result<Vec<u8>> {
    read_whole(format!("/proc/{pid}/maps"))
}

/// The text of this process's mappings.
pub fn own() -> Result<Vec<u8>> {
    read_whole("/proc/self/maps")
}

/// The mappings in a text, in its order. A mapping that grew while the kernel wrote the text can be there twice: [`super::parse_maps`]
/// joins these.
pub fn lines(text: &[u8]) -> impl Iterator<Item = MapsEntry<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(MapsEntry::of)
}

/// A mapping, as the kernel writes it: `from-to rights offset device inode   name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapsEntry<'a> {
    /// Its first address.
    pub from: u64,
    /// The first address after it.
    pub to: u64,
    /// Whether the process may read it.
    pub readable: bool,
    /// Whether the process may write to it.
    pub writable: bool,
    /// Whether the process may execute it.
    pub executable: bool,
    /// Whether writes to it are visible to other processes.
    pub shared: bool,
    /// Its offset in its file, in bytes.
    pub offset: u64,
    /// The file's number; 0 for memory without a file.
    pub inode: u64,
    /// The file's path, or the kernel's name such as `[heap]`; empty for memory without a name.
    pub name: &'a [u8],
}

impl<'a> MapsEntry<'a> {
    /// The path of its file. The kernel adds ` (deleted)` if no file has this path any more. `None` for memory without a file: a program
    /// can give such memory a name like `[anon:/lib/x]`.
    pub fn file(&self) -> Option<&'a [u8]> {
        (self.inode != 0 && self.name.starts_with(b"/")).then_some(self.name)
    }

    /// The mapping of a line without its end; `None` if the line describes no mapping.
    pub fn of(line: &'a [u8]) -> Option<MapsEntry<'a>> {
        let mut rest = line;
        let mut word = || {
            rest = rest.trim_ascii_start();
            let (word, after) = rest.split_at(rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len()));
            rest = after;
            word
        };
        let (addresses, rights, offset, _device, inode) = (word(), word(), word(), word(), word());
        let dash = addresses.iter().position(|byte| *byte == b'-')?;
        let (from, to) = (hexadecimal(&addresses[..dash])?, hexadecimal(&addresses[dash + 1..])?);
        let has = |at: usize, letter: u8| rights.get(at) == Some(&letter);
        (from < to).then_some(())?;
        Some(MapsEntry {
            from,
            to,
            readable: has(0, b'r'),
            writable: has(1, b'w'),
            executable: has(2, b'x'),
            shared: has(3, b's'),
            offset: hexadecimal(offset)?,
            inode: first_number(inode)?,
            name: rest.trim_ascii_start(),
        })
    }
}

pub(super) fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let digit = |byte: &u8| (*byte as char).to_digit(16).map(u64::from);
    text.iter().try_fold(0_u64, |number, byte| Some(number.checked_mul(16)? + digit(byte)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_its_mapping_and_others_tell_none() {
        let line = MapsEntry::of(b"00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a b (deleted)").unwrap();
        assert_eq!((line.from, line.to, line.offset, line.inode), (0x40_0000, 0x45_2000, 0x1000, 173_521));
        assert_eq!(line.name, b"/usr/bin/a b (deleted)");
        assert!(line.readable && line.executable && !line.writable && !line.shared);
        let line = MapsEntry::of(b"7f00-8f00 rw-s 00000000 00:00 0 ").unwrap();
        assert!(line.writable && line.shared && line.name.is_empty());
        for other in
            ["", "Rss:   4 kB", "VmFlags: rd wr", "8f00-7f00 rw-p 0 00:0 0", "11112222333344445-2 rw-p 0 00:0 0"]
        {
            assert_eq!(MapsEntry::of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_name_of_memory_is_no_file() {
        let file = |line: &'static str| MapsEntry::of(line.as_bytes()).unwrap().file();
        assert_eq!(file("1000-2000 r-xp 0 08:02 7   /a b"), Some(&b"/a b"[..]));
        assert_eq!(file("1000-2000 r-xp 0 00:00 0   [anon:/lib/ld-x]"), None);
        assert_eq!(file("1000-2000 rw-s 0 00:01 0   /SYSV00000000 (deleted)"), None);
        assert_eq!(file("1000-2000 rw-p 0 00:00 0 "), None);
    }

    #[test]
    fn this_process_runs_the_code_of_a_mapped_file() {
        let here = this_process_runs_the_code_of_a_mapped_file as *const () as u64;
        let text = own().unwrap();
        let line = lines(&text).find(|line| (line.from..line.to).contains(&here)).unwrap();
        assert!(line.executable && line.file().is_some(), "{line:?}");
        assert!(!read(std::process::id()).unwrap().is_empty() && read(u32::MAX).is_err());
    }

    #[test]
    fn fuzz_no_text_makes_it_panic_and_each_mapping_has_bytes() {
        allocanary_testing::fuzz::holds(
            256,
            3,
            "([0-9a-f]{1,17}-[0-9a-f]{1,17} )?[0-9a-f \\-rwxps/\\[:\n]{0,100}",
            |text| {
                assert!(lines(text.as_bytes()).all(|line| line.from < line.to));
                let joined = crate::proc::parse_maps(&text);
                assert!(joined.iter().all(|one| one.bytes() > 0));
            },
        );
    }
}
