//! A packed trace. In: a file. Out: the headers of its chunks, and the unpacked bytes of each. A chunk is inflated to the length in its
//! header, so a packed file takes no more memory than an unpacked one.

use std::io;
use std::os::unix::fs::FileExt;

use super::{Headers, Packed, Trace};
use crate::error::{Error, Result};
use crate::format::{CHUNK_HEADER, HEADER, PACK_HEADER, PACK_MAGIC};

/// The largest chunks of all threads together may have this many bytes, and [`MEMORY_EACH`] more for each byte of the file.
const MEMORY: u64 = 256 << 20;
const MEMORY_EACH: u64 = 64;

impl Trace {
    /// Fails for a file whose purpose is to fill the memory. A merge needs one chunk of each thread in memory, and a chunk of a megabyte of
    /// zeros is packed to one kilobyte.
    pub(super) fn check_memory(&self, length: u64) -> Result<()> {
        let largest = |chunks: &Vec<crate::format::Chunk>| chunks.iter().map(|chunk| u64::from(chunk.length)).max();
        let found: u64 = self.threads.values().filter_map(largest).sum();
        let most = MEMORY + length.saturating_mul(MEMORY_EACH);
        if found > most {
            let text = format!("wanted at most {most} bytes in the largest chunks of all threads, found {found}");
            return Err(Error::file(&self.path, "reading the packed trace", text));
        }
        Ok(())
    }

    /// Finds the chunks of a packed file, which has this length.
    pub(super) fn find_packed(&mut self, length: u64) -> Result<()> {
        let path = self.path.clone();
        let mut headers = Headers::new(&path);
        let (mut at, mut last) = (HEADER as u64, None);
        // The lowest offset that the next chunk may have in the unpacked file.
        let mut next = HEADER as u64;
        while at < length {
            let bytes: Option<&[u8; PACK_HEADER]> = headers.at(&self.file, at)?;
            let Some(bytes) = bytes.filter(|bytes| bytes[..4] == PACK_MAGIC) else {
                self.damage.get_or_insert(format!("wanted a packed chunk at byte {at}, found something else"));
                break;
            };
            let stored = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
            let offset = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
            let behind = at + PACK_HEADER as u64;
            let head = bytes[16..].first_chunk::<CHUNK_HEADER>().expect("the chunk's header");
            let is_chunk = head.iter().any(|byte| *byte != 0) && offset >= next && offset < self.bytes;
            let found = is_chunk.then(|| self.found(head, offset, self.bytes, &mut last)).flatten();
            let Some(before) = found.filter(|before| u64::from(stored) + CHUNK_HEADER as u64 <= *before) else {
                self.damage.get_or_insert(format!("the packed chunk at byte {at} is damaged"));
                break;
            };
            if behind + u64::from(stored) > length {
                self.damage.get_or_insert(format!("the packed chunk at byte {at} is cut"));
            }
            self.packed.push(Packed { offset, at: behind, length: stored });
            (at, next) = (behind + u64::from(stored), offset + before);
        }
        Ok(())
    }

    /// Reads the unpacked bytes after the header of a chunk.
    pub(super) fn unpack(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
        let found = self.packed.binary_search_by_key(&offset, |packed| packed.offset);
        let packed = found.map(|at| self.packed[at]).map_err(|_| wrong("a chunk that is not there"))?;
        if packed.length as usize == out.len() {
            return self.file.read_exact_at(out, packed.at);
        }
        if packed.length as usize > out.len() {
            return Err(wrong("a packed chunk that is longer than before"));
        }
        let mut bytes = vec![0; packed.length as usize];
        self.file.read_exact_at(&mut bytes, packed.at)?;
        inflate(&bytes, out)
    }
}

#[cfg(feature = "packed")]
fn inflate(bytes: &[u8], out: &mut [u8]) -> io::Result<()> {
    use flate2::{Decompress, FlushDecompress, Status};

    let mut inflater = Decompress::new(false);
    let status = inflater.decompress(bytes, out, FlushDecompress::Finish);
    let is_whole = matches!(status, Ok(Status::StreamEnd)) && inflater.total_out() == out.len() as u64;
    is_whole.then_some(()).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a packed chunk that is damaged"))
}

#[cfg(not(feature = "packed"))]
fn inflate(_: &[u8], _: &mut [u8]) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "a packed trace, which this build does not read (feature `packed`)"))
}
