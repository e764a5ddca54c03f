//! The memory of a process, as the reader needs it. In: what reads it. Out: words, and the tables that beacons lead to.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::time::Instant;

use super::{MOST_TABLES, Trouble};
use crate::layout::{MARK, table_of};

/// A line of `/proc/PID/maps`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub from: u64,
    /// Its end.
    pub to: u64,
    /// Whether it may be written to.
    pub is_writable: bool,
    /// Whether it may be executed.
    pub is_executable: bool,
    /// Whether it is private.
    pub is_private: bool,
    /// Its place in its file.
    pub offset: u64,
    /// The number of its file; 0 if it has none.
    pub inode: u64,
    /// The path of its file, or a name such as `[vdso]`; empty if it has none.
    pub path: String,
}

/// The most bytes of `maps`, and of writable data in which beacons are looked for.
const MOST_TEXT: u64 = 64 << 20;
const MOST_DATA: u64 = 1 << 30;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
const PAGE: u64 = 4096;

/// The memory of a process. Only pages that are present are read: reading others of a mapped file makes the kernel wait
/// for its file system, and the process's own `mmap` with it.
pub trait Source {
    /// Its number.
    fn pid(&self) -> u32;

    /// Its mappings, in the order of their addresses.
    fn mappings(&self) -> Vec<Mapping>;

    /// The ranges of a range that are present.
    fn present(&self, from: u64, to: u64) -> Vec<(u64, u64)>;

    /// Copies bytes. Returns whether all were copied. Of memory without a file, a page that was never used reads as
    /// zeros.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;
}

/// The tables, by their addresses: those that are found by then.
pub(super) fn tables(source: &dyn Source, mappings: &[Mapping], until: Option<Instant>) -> Vec<u64> {
    // The data of a program or a library, which is the beginning of what it can write.
    let is_data = |one: &&Mapping| one.is_writable && one.is_private && one.inode != 0;
    let (mut found, mut read, mut piece) = (Vec::new(), 0, vec![0; PIECE + MARK.len() + 8]);
    for data in mappings.iter().filter(is_data) {
        for (from, to) in source.present(data.from, data.to) {
            let mut at = from;
            while at < to
                && read < MOST_DATA
                && found.len() < MOST_TABLES
                && until.is_none_or(|until| Instant::now() < until)
            {
                let length = (to - at).min(piece.len() as u64) as usize;
                if source.read(at, &mut piece[..length]) {
                    for start in (0..length.min(PIECE)).step_by(MARK.len()) {
                        found.extend(table_of(&piece[start..length]));
                    }
                }
                let step = (length as u64).min(PIECE as u64).next_multiple_of(PAGE);
                (at, read) = (at + step, read + step);
            }
        }
    }
    found.truncate(MOST_TABLES);
    found.sort_unstable();
    found.dedup();
    found
}

/// Words from an address on.
pub(super) fn words(source: &dyn Source, at: u64, count: usize) -> Option<Vec<u64>> {
    let mut bytes = vec![0; count * 8];
    let whole = source.read(at, &mut bytes);
    whole.then(|| bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// The mappings of this process, in the order of their addresses.
pub fn own_mappings() -> Result<Vec<Mapping>, Trouble> {
    let failed = || failed(std::process::id(), "its mappings cannot be read");
    let maps = File::open("/proc/self/maps").map_err(failed())?;
    let mut mappings = Vec::new();
    for line in BufReader::new(maps.take(MOST_TEXT)).split(b'\n') {
        let line = line.map_err(failed())?;
        mappings.extend(mapping(&String::from_utf8_lossy(&line)));
    }
    Ok(mappings)
}

fn failed(pid: u32, what: &'static str) -> impl Fn(std::io::Error) -> Trouble {
    move |error| Trouble::Unreadable { pid, what, error }
}

/// `7f00-7f10 rw-p 00000000 fe:00 12   /path`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (from, to) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (from, to) = (number(from)?, number(to)?);
    let (rights, offset, _, inode) = (words.next()?.as_bytes(), words.next()?, words.next()?, words.next()?);
    let has = |at: usize, letter| rights.get(at) == Some(&letter);
    (from < to).then(|| Mapping {
        from,
        to,
        is_writable: has(1, b'w'),
        is_executable: has(2, b'x'),
        is_private: has(3, b'p'),
        offset: number(offset).unwrap_or(0),
        inode: inode.parse().unwrap_or(0),
        path: words.next().unwrap_or_default().trim_start().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_mapping() {
        let code = mapping("7f00-7f10 r-xp 00001000 fe:00 12   /usr/lib/my lib.so (deleted)").unwrap();
        let wanted = Mapping {
            from: 0x7f00,
            to: 0x7f10,
            is_executable: true,
            is_private: true,
            offset: 0x1000,
            inode: 12,
            path: "/usr/lib/my lib.so (deleted)".into(),
            ..Mapping::default()
        };
        assert_eq!(code, wanted);
        let heap = mapping("5000-6000 rw-p 00000000 00:00 0                    [heap]").unwrap();
        assert!(heap.is_writable && heap.path == "[heap]" && heap.inode == 0);
        for wrong in ["", "7f10-7f00 r-xp 0 0 0", "x-y r-xp 0 0 0", "7f00-7f10"] {
            assert_eq!(mapping(wrong), None, "{wrong}");
        }
    }
}
