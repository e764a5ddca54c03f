//! The buffer's bytes, in memory or, above a threshold, in a mapped file. In: bytes. Out: one slice of them.

use std::path::{Path, PathBuf};

use super::error::{Result, SortBufferError};
use super::map::FileMap;

/// When and where a region moves to a file.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// The maximum number of bytes in memory; `None` for no limit.
    pub bytes: Option<usize>,
    /// The folder of the file.
    pub folder: PathBuf,
}

/// The buffer's bytes.
#[derive(Debug)]
pub enum Region {
    /// In memory.
    Memory(Vec<u8>),
    /// In a mapped file, from which it never moves back.
    Mapped(FileMap),
}

impl Region {
    /// Number of bytes.
    #[inline]
    pub fn used(&self) -> usize {
        self.bytes().len()
    }

    /// Number of bytes that can be appended without growing.
    #[inline]
    pub fn room(&self) -> usize {
        match self {
            Region::Memory(bytes) => bytes.capacity() - bytes.len(),
            Region::Mapped(map) => map.room(),
        }
    }

    /// Appends; there must be enough room.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        match self {
            Region::Memory(memory) => memory.extend_from_slice(bytes),
            Region::Mapped(map) => map.append(bytes),
        }
    }

    /// All bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Region::Memory(bytes) => bytes,
            Region::Mapped(map) => map.bytes(),
        }
    }

    /// All bytes, to be overwritten.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Region::Memory(bytes) => bytes,
            Region::Mapped(map) => map.bytes_mut(),
        }
    }

    /// Removes the bytes and keeps the capacity.
    pub fn clear(&mut self) {
        match self {
            Region::Memory(bytes) => bytes.clear(),
            Region::Mapped(map) => map.set_used(0),
        }
    }

    /// Makes room for `wanted` more bytes: the region grows, or moves to a file. On an error nothing has changed.
    #[cold]
    pub fn grow(&mut self, wanted: usize, threshold: &Threshold) -> Result<()> {
        match self {
            Region::Mapped(map) => map.grow(&threshold.folder, wanted),
            Region::Memory(bytes) => {
                let held = bytes.len();
                let least = held.saturating_add(wanted);
                let most = threshold.bytes.unwrap_or(usize::MAX);
                if least > most {
                    let mut map = FileMap::new(&threshold.folder, least, held)?;
                    map.append(bytes);
                    *self = Region::Mapped(map);
                    return Ok(());
                }
                // At most the threshold, because memory above it would never be used.
                let ample = least.max(bytes.capacity().saturating_mul(2)).max(4096).min(most);
                reserve(bytes, ample - held).or_else(|_| reserve(bytes, wanted))
            }
        }
    }

    /// Another region of the same kind and length, with unspecified content.
    pub fn twin(&self, folder: &Path) -> Result<Region> {
        let used = self.used();
        match self {
            Region::Memory(_) => {
                let mut twin = Vec::new();
                match reserve(&mut twin, used) {
                    Ok(()) => twin.resize(used, 0),
                    Err(_) => return Err(SortBufferError::Memory { wanted: used as u64, held: used as u64 }),
                }
                Ok(Region::Memory(twin))
            }
            Region::Mapped(_) => {
                let mut twin = FileMap::new(folder, used, used)?;
                twin.set_used(used);
                Ok(Region::Mapped(twin))
            }
        }
    }
}

fn reserve(bytes: &mut Vec<u8>, wanted: usize) -> Result<()> {
    let held = bytes.len() as u64;
    bytes.try_reserve_exact(wanted).map_err(|_| SortBufferError::Memory { wanted: wanted as u64, held })
}
