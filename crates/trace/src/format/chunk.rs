//! The headers of chunks, and of chunks with a table. In: bytes of a trace. Out: numbers, and the reverse.

use super::{
    CHUNK_ALIGN, CHUNK_HEADER, CHUNK_MAGIC, LONGEST_CHUNK, MODULE_HEADER, MODULE_MAGIC, NODE_MAGIC, RESIDENT_MAGIC,
    u32_at, u64_at,
};

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The chunk's offset in the file.
    pub offset: u64,
    /// Its length, including this header.
    pub length: u32,
    /// The number of its thread.
    pub thread: u32,
    /// Its number within the thread.
    pub number: u32,
    /// The ticks at which the chunk begins.
    pub stamp: u64,
    /// The ticks at which the place of this chunk was closed; 0 while a thread writes there, and in a trace without a
    /// window. [`Trace`] replaces this value by the ticks at which the thread finished the chunk.
    ///
    /// [`Trace`]: crate::reader::Trace
    pub closed: u64,
}

impl Chunk {
    /// Reads a chunk's header; `None` if these bytes are not one.
    pub fn read(bytes: &[u8], offset: u64) -> Option<Chunk> {
        if bytes.len() < CHUNK_HEADER || bytes[..4] != CHUNK_MAGIC {
            return None;
        }
        let length = u32_at(bytes, 4);
        let (thread, number) = (u32_at(bytes, 8), u32_at(bytes, 12));
        let (stamp, closed) = (u64_at(bytes, 16), u64_at(bytes, 24));
        is_chunk_length(length).then_some(Chunk { offset, length, thread, number, stamp, closed })
    }

    /// Writes the header.
    pub fn write(&self, bytes: &mut [u8]) {
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.thread.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stamp.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.closed.to_le_bytes());
        bytes[..4].copy_from_slice(&CHUNK_MAGIC);
    }
}

/// The header of a chunk with a table, of a trace with stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableHeader {
    /// The kind of the table.
    pub magic: [u8; 4],
    /// The offset of the chunk in the file.
    pub offset: u64,
    /// Its length, including this header.
    pub length: u32,
    /// The number of its first node, the number of modules before it, or its mark.
    pub first: u32,
    /// The number of its ranges.
    pub count: u32,
}

impl TableHeader {
    /// Reads the header of a table; `None` if these bytes are not one.
    pub fn read(bytes: &[u8], offset: u64) -> Option<TableHeader> {
        let magic = bytes.get(..CHUNK_HEADER)?[..4].try_into().ok()?;
        let is_table = [NODE_MAGIC, MODULE_MAGIC, RESIDENT_MAGIC].contains(&magic);
        let (length, first, count) = (u32_at(bytes, 4), u32_at(bytes, 8), u32_at(bytes, 12));
        (is_table && is_chunk_length(length)).then_some(TableHeader { magic, offset, length, first, count })
    }

    /// Writes the header.
    pub fn write(&self, bytes: &mut [u8]) {
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.first.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..CHUNK_HEADER].fill(0);
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Release);
        bytes[..4].copy_from_slice(&self.magic);
    }
}

/// Writes a module to the beginning of `bytes`, which are zeros, and returns the module's length. `None` if it does not
/// fit.
pub fn put_module(bytes: &mut [u8], [start, end, bias]: [u64; 3], path: &[u8], build_id: &[u8]) -> Option<usize> {
    let (path, build_id) = (&path[..path.len().min(4096)], &build_id[..build_id.len().min(64)]);
    let length = (MODULE_HEADER + path.len() + build_id.len()).next_multiple_of(8);
    let record = bytes.get_mut(..length)?;
    record[4..6].copy_from_slice(&(path.len() as u16).to_le_bytes());
    record[6..8].copy_from_slice(&(build_id.len() as u16).to_le_bytes());
    for (at, number) in [start, end, bias].into_iter().enumerate() {
        record[8 + at * 8..16 + at * 8].copy_from_slice(&number.to_le_bytes());
    }
    record[MODULE_HEADER..MODULE_HEADER + path.len()].copy_from_slice(path);
    record[MODULE_HEADER + path.len()..][..build_id.len()].copy_from_slice(build_id);
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Release);
    record[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Some(length)
}

pub(super) fn is_chunk_length(length: u32) -> bool {
    (length as usize).is_multiple_of(CHUNK_ALIGN) && (1..=LONGEST_CHUNK).contains(&(length as usize))
}
