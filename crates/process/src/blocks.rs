//! Reads a file in blocks, so that many small reads close to each other, such as the names of symbols, need few system calls.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use crate::file::Opened;

const BLOCK: u64 = 1 << 16;
/// The number of blocks that are kept: 16 MiB. The names of symbols are in no order. When only the last block was kept, each name needed a
/// read of 64 KiB, and the 70,000 names of a file of 99 MB took 0.3 s.
const KEPT: usize = 256;

/// A file, with the blocks of it that were read.
pub struct FileBlocks<'a> {
    opened: &'a Opened,
    at: u64,
    kept: HashMap<u64, Vec<u8>>,
}

impl<'a> FileBlocks<'a> {
    /// Nothing is read yet.
    pub fn new(opened: &'a Opened) -> FileBlocks<'a> {
        FileBlocks { opened, at: 0, kept: HashMap::new() }
    }

    /// The block with this number. The last one of the file is shorter.
    fn block(&mut self, number: u64) -> io::Result<&[u8]> {
        if self.kept.len() >= KEPT && !self.kept.contains_key(&number) {
            self.kept.clear();
        }
        Ok(match self.kept.entry(number) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(read(&self.opened.file, number * BLOCK)?),
        })
    }
}

/// Reads a block of the file, beginning at this byte.
fn read(file: &File, from: u64) -> io::Result<Vec<u8>> {
    let mut block = vec![0; BLOCK as usize];
    let mut read = 0;
    loop {
        match file.read_at(&mut block[read..], from + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    block.truncate(read);
    Ok(block)
}

impl Read for FileBlocks<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.len() as u64 >= BLOCK {
            let read = self.opened.file.read_at(into, self.at)?;
            self.at += read as u64;
            return Ok(read);
        }
        let (number, within) = (self.at / BLOCK, (self.at % BLOCK) as usize);
        let left = self.block(number)?.get(within..).unwrap_or_default();
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for FileBlocks<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let wanted = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.opened.stamp.bytes.checked_add_signed(by),
        };
        self.at = wanted.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_read_in_blocks_is_what_the_file_has() {
        let bytes: Vec<u8> =
            (0..3 * BLOCK as u32 + 77).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let opened = Opened::of(file).unwrap();
        let mut blocks = FileBlocks::new(&opened);
        for (at, count) in [(0, 10), (65_530, 20), (65_530, 200_000 - 65_530), (3, 70_000), (196_680, 5), (196_608, 77)]
        {
            let mut found = vec![0; count];
            assert_eq!(blocks.seek(SeekFrom::Start(at as u64)).unwrap(), at as u64);
            match bytes.get(at..at + count) {
                Some(wanted) => {
                    blocks.read_exact(&mut found).unwrap();
                    assert!(found == wanted, "{at} {count}");
                }
                None => assert!(blocks.read_exact(&mut found).is_err(), "{at} {count}"),
            }
        }
        assert_eq!(blocks.seek(SeekFrom::End(0)).unwrap(), bytes.len() as u64);
        assert_eq!(blocks.read(&mut [0; 4]).unwrap(), 0);
    }
}
