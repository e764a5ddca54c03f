//! The nodes of all stacks, without a lock. In: a parent and a return address. Out: the number of a node, and the node in the mapped file.
//!
//! Numbers are given in the order of first use. An index of several tables finds them. In each table a node can be in
//! one of eight places, which are one line of the processor's cache. If all eight are taken, the node is in the next
//! table, which has four times as many places. A place that was taken stays taken.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::sync::atomic::{Ordering::Release, fence};

use super::modules::Modules;
use super::room::Room;
use crate::memory::{map_wiped, populate};
use crate::process::RING;
use crate::undisturbed::undisturbed;
use allocanary_trace::format::{CHUNK_HEADER, MOST_NODES, NODE, NODE_MAGIC, TableHeader};
use allocanary_trace::stacks::StackId;

/// The length of a chunk in bytes, and its number of nodes. A place of a window has several chunks.
const CHUNK: usize = 8192;
const OF_CHUNK: usize = (CHUNK - CHUNK_HEADER) / NODE;
const CHUNKS: usize = MOST_NODES / OF_CHUNK + 1;
const _: () = assert!(RING.is_multiple_of(CHUNK));

/// The first table of the index has two to the power of `FIRST_BITS` places. The next constants are the number of tables, and of places in
/// one line.
const FIRST_BITS: u32 = 13;
const LEVELS: usize = 6;
const LINE: usize = 8;

/// The nodes of a process. All zeros is its first state.
#[repr(C)]
pub(super) struct Nodes {
    count: AtomicU32,
    /// Bytes of the index.
    bytes: AtomicU64,
    /// Each place has 32 bits of the hash and 32 bits of the number; 0 is a free place.
    index: [AtomicPtr<AtomicU64>; LEVELS],
    chunks: [AtomicPtr<u8>; CHUNKS],
}

/// The places of a table.
fn places_of(level: usize) -> usize {
    1 << (FIRST_BITS + 2 * level as u32)
}

fn hash_of(parent: StackId, pc: u64) -> u64 {
    let product =
        u128::from(pc ^ u64::from(parent) << 40 ^ u64::from(parent)) * 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
    product as u64 ^ (product >> 64) as u64
}

impl Nodes {
    /// Bytes of memory that the index takes.
    pub(super) fn index_bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Gives back the memory of the index. Its places are free then.
    pub(super) fn empty(&self) {
        for (level, table) in self.index.iter().enumerate() {
            let (table, bytes) = (table.load(Acquire), size_of::<AtomicU64>() * places_of(level));
            if !table.is_null() {
                // SAFETY: our own mapping of that length. Its pages become zeros, which are free places.
                unsafe { libc::madvise(table.cast(), bytes, libc::MADV_DONTNEED) };
            }
        }
    }

    /// Finds or adds a node, and returns its number. `None` if there is no room. The same address in another file is another node.
    pub(super) fn find_or_add(&self, room: &Room, parent: StackId, pc: u64, modules: &Modules) -> Option<StackId> {
        let module = modules.is_reused().then(|| modules.number_of(pc));
        let hash = hash_of(parent, pc);
        let tag = hash >> 32;
        let mut new = None;
        for level in 0..LEVELS {
            let places = places_of(level);
            let table = self.table(level, places)?;
            let line = hash as usize & (places - 1) & !(LINE - 1);
            // SAFETY: the table has that many places.
            let line = unsafe { std::slice::from_raw_parts(table.add(line), LINE) };
            for place in line {
                let mut entry = place.load(Acquire);
                if entry == 0 {
                    let added = match new {
                        Some(added) => added,
                        None => {
                            *new.insert(self.add(room, parent, pc, module.unwrap_or_else(|| modules.number_of(pc)))?)
                        }
                    };
                    match place.compare_exchange(0, tag << 32 | u64::from(added), AcqRel, Acquire) {
                        Ok(_) => return Some(added),
                        // Another thread was faster, perhaps with the same node. If so, our number stays unused.
                        Err(now) => entry = now,
                    }
                }
                if entry >> 32 == tag && self.is_node(entry as StackId, parent, pc, module) {
                    return Some(entry as StackId);
                }
            }
        }
        None
    }

    /// A table of the index, which is made if it does not exist.
    #[inline]
    fn table(&self, level: usize, places: usize) -> Option<*const AtomicU64> {
        let table = self.index[level].load(Acquire);
        if table.is_null() { undisturbed(|| self.make_table(level, places)) } else { Some(table) }
    }

    #[cold]
    fn make_table(&self, level: usize, places: usize) -> Option<*const AtomicU64> {
        let bytes = places * size_of::<AtomicU64>();
        let made: *mut AtomicU64 = map_wiped(bytes).cast();
        if made.is_null() {
            return None;
        }
        match self.index[level].compare_exchange(null_mut(), made, AcqRel, Acquire) {
            Ok(_) => {
                // This makes the whole table resident, so all of it is counted as the recorder's memory.
                populate(made.cast(), bytes);
                self.bytes.fetch_add(bytes as u64, Relaxed);
                Some(made)
            }
            Err(other) => {
                // SAFETY: our own mapping, which nobody else has seen.
                unsafe { libc::munmap(made.cast(), bytes) };
                Some(other)
            }
        }
    }

    /// The place of a node in the file: a word with its address, then a word with its parent and its module.
    fn place(&self, node: StackId) -> Option<*mut AtomicU64> {
        let at = node.checked_sub(1)? as usize;
        let chunk = self.chunks.get(at / OF_CHUNK)?.load(Acquire);
        // SAFETY: the chunk has this many nodes, which are aligned.
        (!chunk.is_null()).then(|| unsafe { chunk.add(CHUNK_HEADER + at % OF_CHUNK * NODE).cast() })
    }

    /// Whether this is the number of a node with these values. `module` is compared only if more than one file has had the same addresses.
    fn is_node(&self, node: StackId, parent: StackId, pc: u64, module: Option<u32>) -> bool {
        // SAFETY: the two words of a node.
        let Some((at, of)) =
            self.place(node).map(|place| unsafe { ((*place).load(Relaxed), (*place.add(1)).load(Relaxed)) })
        else {
            return false;
        };
        at == pc && of as u32 == parent && module.is_none_or(|module| (of >> 32) as u32 == module)
    }

    /// Writes a new node.
    #[cold]
    fn add(&self, room: &Room, parent: StackId, pc: u64, module: u32) -> Option<StackId> {
        // The table is full. The counter must not increase further, because it could overflow.
        if self.count.load(Relaxed) as usize + 1 >= MOST_NODES {
            return None;
        }
        // The node gets its room before its number, because a number without a place would be lost.
        self.make_room(room, self.count.load(Relaxed) as usize)?;
        let at = self.count.fetch_add(1, Relaxed) as usize;
        let node = (at + 1 < MOST_NODES).then_some(at as StackId + 1)?;
        self.make_room(room, at)?;
        let place = self.place(node)?;
        // SAFETY: the two words of the node. The address is written last: it says that the node exists.
        unsafe {
            (*place.add(1)).store(u64::from(module) << 32 | u64::from(parent), Relaxed);
            (*place).store(pc, Release);
        }
        Some(node)
    }

    /// Makes the chunk of node number `at`, if it does not exist.
    fn make_room(&self, room: &Room, at: usize) -> Option<()> {
        let is_there = self.place(at as StackId + 1).is_some();
        if is_there { Some(()) } else { undisturbed(|| self.make_chunk(room, at / OF_CHUNK)) }
    }

    /// Makes the chunk of this number, and those that share its place.
    fn make_chunk(&self, room: &Room, number: usize) -> Option<()> {
        let length = room.length(CHUNK);
        let first = number - number % (length / CHUNK);
        let chunks = &self.chunks[first..CHUNKS.min(first + length / CHUNK)];
        let (offset, start) = room.chunk(length)?;
        for at in 0..chunks.len() {
            // SAFETY: the range is this thread's alone.
            let header = unsafe { std::slice::from_raw_parts_mut(start.add(at * CHUNK), CHUNK_HEADER) };
            let (offset, first) = (offset + (at * CHUNK) as u64, ((first + at) * OF_CHUNK + 1) as u32);
            TableHeader { magic: NODE_MAGIC, offset, length: CHUNK as u32, first, count: 0 }.write(header);
        }
        fence(Release);
        let start = match chunks[0].compare_exchange(null_mut(), start, AcqRel, Acquire) {
            Ok(_) => start,
            // Another thread was faster.
            Err(other) => {
                room.give_back(start);
                other
            }
        };
        for (at, chunk) in chunks.iter().enumerate().skip(1) {
            // SAFETY: the place has this many chunks, whose headers are written.
            let _ = chunk.compare_exchange(null_mut(), unsafe { start.add(at * CHUNK) }, AcqRel, Acquire);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
