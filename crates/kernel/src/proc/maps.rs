//! A line of `/proc/PID/maps`, which is also the first line of each mapping in `smaps`. In: its bytes. Out: what it tells. Allocates
//! nothing.

use crate::sys::first_number;

/// A mapping, as the kernel writes it: `from-to rights offset device inode   name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
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
    /// Whether other processes see what is written.
    pub shared: bool,
    /// Where it begins in its file, in bytes.
    pub offset: u64,
    /// The file's number; 0 for memory without a file.
    pub inode: u64,
    /// The file's path, or the kernel's name such as `[heap]`; empty for memory without a name.
    pub name: &'a [u8],
}

impl Line<'_> {
    /// The mapping of a line without its end; `None` if the line is none of a mapping.
    pub fn of(line: &[u8]) -> Option<Line<'_>> {
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
        Some(Line {
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

    #[test]
    fn a_line_tells_its_mapping_and_others_tell_none() {
        let line = Line::of(b"00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a b (deleted)").unwrap();
        assert_eq!((line.from, line.to, line.offset, line.inode), (0x40_0000, 0x45_2000, 0x1000, 173_521));
        assert_eq!(line.name, b"/usr/bin/a b (deleted)");
        assert!(line.readable && line.executable && !line.writable && !line.shared);
        let line = Line::of(b"7f00-8f00 rw-s 00000000 00:00 0 ").unwrap();
        assert!(line.writable && line.shared && line.name.is_empty());
        for other in
            ["", "Rss:   4 kB", "VmFlags: rd wr", "8f00-7f00 rw-p 0 00:0 0", "11112222333344445-2 rw-p 0 00:0 0"]
        {
            assert_eq!(Line::of(other.as_bytes()), None, "{other}");
        }
    }
}
