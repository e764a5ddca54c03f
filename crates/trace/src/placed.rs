//! The addresses of the blocks of a replay. In: a replay at a stop, or a file. Out: a file of words. It has the pages
//! in which blocks have been, the resident ones of these pages, the slot, address and size of each block, and the
//! addresses of a pool.
//!
//! The replay's process writes the file, and the command that started this process reads it. Both are from one build.
//! After the magic, each record has three words: a tag and two numbers. The tag of a block has its slot in the upper
//! half.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::stacks::Resident;

/// The size of a page.
pub const PAGE: u64 = 4096;

const MAGIC: u64 = u64::from_le_bytes(*b"ALCPLAC\x01");
const USED: u64 = 1;
const RESIDENT: u64 = 2;
const BLOCK: u64 = 3;
const END: u64 = 4;
const REGION: u64 = 5;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedBlock {
    /// Its slot: see [`FreeSlots`](crate::prepare::FreeSlots).
    pub slot: u32,
    /// Its address.
    pub address: u64,
    /// The requested size in bytes.
    pub size: u64,
}

/// The content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Addresses of the pages in which a block has been until the stop, in order.
    pub used: Vec<Range<u64>>,
    /// The parts of `used` that were resident, in order.
    pub resident: Vec<Range<u64>>,
    /// The live blocks, by rising slots.
    pub blocks: Vec<PlacedBlock>,
    /// The addresses of the pool, if some blocks were in a pool.
    pub region: Option<Range<u64>>,
}

/// Writes a file of words without allocating.
pub(crate) struct Writer<'a> {
    file: &'a File,
    buffer: [u8; 24 * 170],
    filled: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(file: &'a File) -> Writer<'a> {
        let mut out = Writer { file, buffer: [0; 24 * 170], filled: 0 };
        out.buffer[..8].copy_from_slice(&MAGIC.to_le_bytes());
        // The magic is a record of three words too.
        out.filled = 24;
        out
    }

    /// Writes that a block has been in these pages.
    pub(crate) fn used(&mut self, pages: &Range<u64>) -> io::Result<()> {
        self.record([USED, pages.start * PAGE, pages.end * PAGE])
    }

    /// Writes that these pages are resident.
    pub(crate) fn resident(&mut self, pages: &Range<u64>) -> io::Result<()> {
        self.record([RESIDENT, pages.start * PAGE, pages.end * PAGE])
    }

    /// Writes the addresses of the pool.
    pub(crate) fn region(&mut self, region: &Range<u64>) -> io::Result<()> {
        self.record([REGION, region.start, region.end])
    }

    pub(crate) fn block(&mut self, block: &PlacedBlock) -> io::Result<()> {
        self.record([u64::from(block.slot) << 32 | BLOCK, block.address, block.size])
    }

    /// Writes the last record. A file without it was cut.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.record([END, 0, 0])?;
        self.flush()
    }

    fn record(&mut self, words: [u64; 3]) -> io::Result<()> {
        for (place, word) in self.buffer[self.filled..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.filled += 24;
        if self.filled == self.buffer.len() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let filled = std::mem::take(&mut self.filled);
        self.file.write_all(&self.buffer[..filled])
    }
}

impl Placed {
    /// Reads a file that a replay wrote.
    pub fn read(path: &Path) -> Result<Placed> {
        let failed =
            |error: &dyn std::fmt::Display| Error::file(path, "reading where the replay put the blocks", error);
        let file = File::open(path).map_err(|error| failed(&error))?;
        Placed::of(BufReader::new(file)).map_err(|error| failed(&error))
    }

    fn of(mut file: impl Read) -> io::Result<Placed> {
        let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
        let mut record = || -> io::Result<[u64; 3]> {
            let mut bytes = [0; 24];
            file.read_exact(&mut bytes).map_err(|_| wrong("it is cut: the replay did not come to this moment"))?;
            let (words, _) = bytes.as_chunks();
            Ok([words[0], words[1], words[2]].map(u64::from_le_bytes))
        };
        if record()?[0] != MAGIC {
            return Err(wrong("it is of another version"));
        }
        let mut out = Placed::default();
        loop {
            let [tag, a, b] = record()?;
            match tag & u64::from(u32::MAX) {
                USED => out.used.push(a..b),
                RESIDENT => out.resident.push(a..b),
                BLOCK => out.blocks.push(PlacedBlock { slot: (tag >> 32) as u32, address: a, size: b }),
                REGION => out.region = Some(a..b),
                END => return Ok(out),
                _ => return Err(wrong("it is damaged")),
            }
        }
    }

    /// The resident pages, in the form in which a trace has those of a program at a mark.
    pub fn residents(&self) -> Resident {
        Resident { mark: 0, ranges: self.resident.clone() }
    }

    /// The block of a slot.
    pub fn block(&self, slot: u32) -> Option<&PlacedBlock> {
        let at = self.blocks.binary_search_by_key(&slot, |block| block.slot).ok()?;
        Some(&self.blocks[at])
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_file_that_was_cut_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("placed");
        let file = File::create(&path).unwrap();
        let blocks: Vec<PlacedBlock> =
            (0..1000).map(|at| PlacedBlock { slot: 2 * at, address: 1 << 40, size: u64::from(at) }).collect();
        let mut out = Writer::new(&file);
        out.used(&(1..5)).unwrap();
        out.resident(&(2..3)).unwrap();
        out.region(&(8..9)).unwrap();
        blocks.iter().try_for_each(|block| out.block(block)).unwrap();
        out.end().unwrap();
        let placed = Placed::read(&path).unwrap();
        let wanted =
            Placed { used: vec![PAGE..5 * PAGE], resident: vec![2 * PAGE..3 * PAGE], blocks, region: Some(8..9) };
        assert_eq!(placed, wanted);
        assert_eq!((placed.block(4).map(|block| block.size), placed.block(5)), (Some(2), None));
        let bytes = std::fs::read(&path).unwrap();
        for length in [0, 20, 24, bytes.len() - 24, bytes.len() - 1] {
            assert!(Placed::of(&bytes[..length]).unwrap_err().to_string().contains("it is cut"), "{length}");
        }
        assert_eq!(Placed::of(&[9; 48][..]).unwrap_err().to_string(), "it is of another version");
    }
}
