//! The files that contain the code of frames. In: the dynamic linker's data. Out: a record of each file in the mapped
//! file.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};
use std::sync::atomic::{Ordering::Release, Ordering::SeqCst};

use allocanary_stacks::mappings::file_at;
use allocanary_stacks::object::MappedObject;
use allocanary_sys::fnv::Fnv;

use super::room::Room;
use crate::undisturbed::undisturbed;
use allocanary_trace::format::{CHUNK_HEADER, MODULE_MAGIC, TableHeader, at, put_module};

/// The maximum number of recorded files. Frames in further files have only an address.
const MOST: usize = 1024;
/// Length of a chunk without a window: a path has at most 4096 bytes.
const CHUNK: usize = 8192;

/// A recorded file.
#[repr(C)]
struct Known {
    start: AtomicU64,
    end: AtomicU64,
    /// The hash of its whole record.
    hash: AtomicU64,
    /// How often libraries had been closed when this file was last seen.
    forgotten: AtomicU64,
    /// The number of this file in the order in which files were mapped. If two files have had one address, the file
    /// with the higher number has it now.
    mapped: AtomicU64,
}

/// The files of a process. All zeros is its first state.
#[repr(C)]
pub(super) struct Modules {
    /// 1 while a thread writes a record.
    busy: AtomicU32,
    count: AtomicUsize,
    /// The highest value of `mapped`.
    last: AtomicU64,
    /// 1 once a file has addresses that an earlier file had.
    is_reused: AtomicU32,
    /// The present chunk, and its used bytes.
    chunk: AtomicPtr<u8>,
    used: AtomicUsize,
    /// A buffer for a path. It is not on the stack, because a coroutine's stack may have only a few KiB. Only the
    /// thread that has set `busy` uses it.
    absolute: UnsafeCell<[u8; 512]>,
    known: [Known; MOST],
}

// SAFETY: all fields but the path are atomic. Only the thread that has set `busy` reads and writes the path.
unsafe impl Sync for Modules {}

impl Modules {
    fn known(&self) -> &[Known] {
        &self.known[..self.count.load(Acquire).min(MOST)]
    }

    /// Whether two files may have had the same address at different times.
    #[inline(always)]
    pub(super) fn is_reused(&self) -> bool {
        self.is_reused.load(Relaxed) != 0
    }

    /// The number of the file, counted from 1, that has this return address now; 0 if no recorded file has it.
    pub(super) fn number_of(&self, pc: u64) -> u32 {
        let call = pc.wrapping_sub(1);
        let has = |known: &Known| (known.start.load(Relaxed)..known.end.load(Relaxed)).contains(&call);
        let all = self.known().iter().enumerate().filter(|(_, known)| has(known));
        all.max_by_key(|(_, known)| known.mapped.load(Relaxed)).map_or(0, |(at, _)| at as u32 + 1)
    }

    /// Records a file at its first frame. `forgotten` is how often libraries were closed before. Returns false if
    /// another thread is recording a file, or if there is no room at the moment. The file is then recorded at its next
    /// frame.
    pub(super) fn find_or_add(&self, room: &Room, object: &MappedObject, forgotten: u64) -> bool {
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

    /// Adds the record of a file. Returns false if there is no room now but may be later: the caller must try again.
    fn add(&self, room: &Room, object: &MappedObject, forgotten: u64) -> bool {
        let Some(base) = room.base() else { return true };
        let path = match object.path() {
            // SAFETY: the header of the mapped file, whose text was written once and ends in NUL.
            b"" => unsafe { std::ffi::CStr::from_ptr(base.add(at::PROGRAM).cast()) }.to_bytes(),
            path => path,
        };
        // The path is relative if the library was opened by a relative path, or if its `rpath` is relative. SAFETY:
        // `busy` is this thread's.
        let absolute = unsafe { &mut *self.absolute.get() };
        let length = if path.contains(&b'/') && path[0] != b'/' { file_at(object.start, absolute) } else { 0 };
        let path = if length > 0 { &absolute[..length] } else { path };
        let numbers = [object.start, object.end, object.bias];
        let mut hash = Fnv::default();
        hash.add(numbers.map(u64::to_le_bytes).as_flattened());
        hash.add(path);
        hash.add(object.build_id());
        let mapped = self.last.fetch_add(1, Relaxed) + 1;
        // If the same file is at the same address, it was closed and opened again, or it stayed while another file was
        // closed.
        if let Some(known) = self.known().iter().find(|known| known.hash.load(Relaxed) == hash.value()) {
            known.mapped.store(mapped, Relaxed);
            known.forgotten.store(forgotten, Relaxed);
            return true;
        }
        let overlaps = |known: &Known| known.start.load(Relaxed) < object.end && object.start < known.end.load(Relaxed);
        if self.known().iter().any(overlaps) {
            self.is_reused.store(1, Relaxed);
        }
        let Some(place) = self.known.get(self.count.load(Relaxed)) else { return true };
        if !self.write(room, numbers, path, object.build_id()) {
            return !room.may_come();
        }
        place.start.store(object.start, Relaxed);
        place.end.store(object.end, Relaxed);
        place.hash.store(hash.value(), Relaxed);
        place.forgotten.store(forgotten, Relaxed);
        place.mapped.store(mapped, Relaxed);
        self.count.fetch_add(1, Release);
        true
    }

    /// Writes the record, to the present chunk or to a new one. Returns false if there is no room.
    fn write(&self, room: &Room, numbers: [u64; 3], path: &[u8], build_id: &[u8]) -> bool {
        let length = room.length(CHUNK);
        for _ in 0..2 {
            let (chunk, used) = (self.chunk.load(Relaxed), self.used.load(Relaxed));
            if !chunk.is_null() {
                // SAFETY: the rest of the chunk, which only this thread uses while it has set `busy`.
                let rest = unsafe { std::slice::from_raw_parts_mut(chunk.add(used), length - used) };
                if let Some(written) = put_module(rest, numbers, path, build_id) {
                    self.used.store(used + written, Relaxed);
                    return true;
                }
            }
            let Some((offset, start)) = room.chunk(length) else { break };
            // SAFETY: the range is this thread's alone.
            let header = unsafe { std::slice::from_raw_parts_mut(start, CHUNK_HEADER) };
            let first = self.count.load(Relaxed) as u32;
            TableHeader { magic: MODULE_MAGIC, offset, length: length as u32, first, count: 0 }.write(header);
            self.used.store(CHUNK_HEADER, Relaxed);
            self.chunk.store(start, Relaxed);
        }
        false
    }
}

#[cfg(all(test, target_env = "gnu"))]
pub(super) mod tests;
