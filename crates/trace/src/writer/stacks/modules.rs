//! The files with code in which frames lie. In: what the dynamic linker says of them. Out: a record of each in the mapped file.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};
use std::sync::atomic::{Ordering::Release, Ordering::SeqCst};

use allocanary_kernel::fnv::Fnv;
use allocanary_stacks::object::Object;

use super::room::Room;
use crate::format::{CHUNK_HEADER, MODULE_MAGIC, Table, at, put_module};
use crate::writer::undisturbed::undisturbed;

/// Files that are told at most; frames in others have an address only.
const MOST: usize = 1024;
/// Length of a chunk without a window: a path has at most 4096 bytes.
const CHUNK: usize = 8192;

/// A file that is told.
#[repr(C)]
struct Known {
    start: AtomicU64,
    end: AtomicU64,
    /// Of all that is written of it.
    hash: AtomicU64,
    /// How often rules had been forgotten when it was last seen.
    forgotten: AtomicU64,
}

/// The files of a process. All zeros is its first state.
#[repr(C)]
pub(super) struct Modules {
    /// 1 while a thread writes a record.
    busy: AtomicU32,
    count: AtomicUsize,
    /// The present chunk, and what is used of it.
    chunk: AtomicPtr<u8>,
    used: AtomicUsize,
    known: [Known; MOST],
}

impl Modules {
    fn known(&self) -> &[Known] {
        &self.known[..self.count.load(Acquire).min(MOST)]
    }

    /// Tells a file at its first frame; libraries were closed so many times before. False while another thread tells one, or where there is
    /// no room for the moment: this one is then told at its next frame.
    pub(super) fn find_or_add(&self, room: &Room, object: &Object, forgotten: u64) -> bool {
        let is_same = |known: &&Known| {
            (known.start.load(Relaxed), known.end.load(Relaxed)) == (object.start, object.end)
                && known.forgotten.load(Relaxed) == forgotten
        };
        if self.known().iter().any(|known| is_same(&known)) {
            return true;
        }
        if self.busy.swap(1, SeqCst) != 0 {
            return false;
        }
        let is_done = undisturbed(|| self.add(room, object, forgotten));
        self.busy.store(0, SeqCst);
        is_done
    }

    /// False if it is to be told again: there may be room later.
    fn add(&self, room: &Room, object: &Object, forgotten: u64) -> bool {
        let Some(base) = room.base() else { return true };
        let path = match object.path() {
            // SAFETY: the header of the mapped file, whose text was written once and ends in NUL.
            b"" => unsafe { std::ffi::CStr::from_ptr(base.add(at::PROGRAM).cast()) }.to_bytes(),
            path => path,
        };
        let numbers = [object.start, object.end, object.bias];
        let mut hash = Fnv::default();
        hash.add(numbers.map(u64::to_le_bytes).as_flattened());
        hash.add(path);
        hash.add(object.build_id());
        // The latest one at this place: it is the same file as before a library was closed, or another one.
        let latest = self.known().iter().rev().find(|known| known.start.load(Relaxed) == object.start);
        if let Some(latest) = latest.filter(|latest| latest.hash.load(Relaxed) == hash.value()) {
            latest.forgotten.store(forgotten, Relaxed);
            return true;
        }
        let Some(place) = self.known.get(self.count.load(Relaxed)) else { return true };
        if !self.write(room, numbers, path, object.build_id()) {
            return !room.may_come();
        }
        place.start.store(object.start, Relaxed);
        place.end.store(object.end, Relaxed);
        place.hash.store(hash.value(), Relaxed);
        place.forgotten.store(forgotten, Relaxed);
        self.count.fetch_add(1, Release);
        true
    }

    /// Writes the record, to the present chunk or to a new one. False if there is no room.
    fn write(&self, room: &Room, numbers: [u64; 3], path: &[u8], build_id: &[u8]) -> bool {
        let length = room.length(CHUNK);
        for _ in 0..2 {
            let (chunk, used) = (self.chunk.load(Relaxed), self.used.load(Relaxed));
            if !chunk.is_null() {
                // SAFETY: the rest of the chunk, which is this thread's alone while it is busy.
                let rest = unsafe { std::slice::from_raw_parts_mut(chunk.add(used), length - used) };
                if let Some(written) = put_module(rest, numbers, path, build_id) {
                    self.used.store(used + written, Relaxed);
                    return true;
                }
            }
            let Some((offset, start)) = room.chunk(length) else { break };
            // SAFETY: the range is this thread's alone.
            let header = unsafe { std::slice::from_raw_parts_mut(start, CHUNK_HEADER) };
            Table { magic: MODULE_MAGIC, offset, length: length as u32, first: 0, count: 0 }.write(header);
            self.used.store(CHUNK_HEADER, Relaxed);
            self.chunk.store(start, Relaxed);
        }
        false
    }
}

#[cfg(all(test, target_arch = "x86_64", target_env = "gnu"))]
mod tests;
