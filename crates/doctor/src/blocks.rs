//! A file that is read in blocks. In: a file, and many small reads that lie near each other, such as the names of symbols. Out: the same
//! bytes, by few system calls.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

const BLOCK: u64 = 1 << 16;

/// A file with the last block that was read of it.
pub struct Blocks<'a> {
    file: &'a File,
    at: u64,
    from: u64,
    block: Vec<u8>,
}

impl<'a> Blocks<'a> {
    /// Nothing is read yet.
    pub fn new(file: &'a File) -> Blocks<'a> {
        Blocks { file, at: 0, from: 0, block: Vec::new() }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.from = self.at / BLOCK * BLOCK;
        self.block.resize(BLOCK as usize, 0);
        let mut read = 0;
        let end = loop {
            match self.file.read_at(&mut self.block[read..], self.from + read as u64) {
                Ok(0) => break Ok(()),
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.block.truncate(read);
        end
    }
}

impl Read for Blocks<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.len() as u64 >= BLOCK {
            let read = self.file.read_at(into, self.at)?;
            self.at += read as u64;
            return Ok(read);
        }
        if !(self.from..self.from + self.block.len() as u64).contains(&self.at) {
            self.fill()?;
        }
        let left = self.block.get((self.at - self.from) as usize..).unwrap_or_default();
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Blocks<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let wanted = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
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
        let bytes: Vec<u8> = (0..3 * BLOCK as u32 + 77).map(|at| ((at * 2_654_435_761) >> 24) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let mut blocks = Blocks::new(&file);
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
