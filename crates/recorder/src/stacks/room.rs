//! Room for the tables of stacks. In: a process and the file that its tables are in. Out: parts of that file.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::process::{Process, RING};
use crate::tls::ticks;
use allocanary_trace::format::CHUNK_HEADER;

pub(super) struct Room<'a> {
    pub(super) process: &'a Process,
    pub(super) base: &'a AtomicPtr<u8>,
}

impl Room<'_> {
    /// The mapped file. `None` in the child of a fork that has interrupted this call.
    pub(super) fn base(&self) -> Option<*mut u8> {
        let base = self.base.load(SeqCst);
        (!base.is_null() && base == self.process.base()).then_some(base)
    }

    /// Adds one to an 8-byte field of the file's header. Does nothing in the child of a fork that has interrupted this call, because
    /// it has no file.
    pub(super) fn count(&self, field: usize) {
        if let Some(base) = self.base() {
            // SAFETY: an aligned field in the header of the mapped file. If a fork happens at this point, the child has
            // private memory at the same address.
            unsafe { AtomicU64::from_ptr(base.add(field).cast()) }.fetch_add(1, Relaxed);
        }
    }

    /// Whether there may be a part later, if there is none now because threads write to all places.
    pub(super) fn may_come(&self) -> bool {
        self.base().is_some() && self.process.has_window() && self.process.may_have_table_place()
    }

    /// The length of a part for tables: `usual` bytes, or a whole place in a window.
    pub(super) fn length(&self, usual: usize) -> usize {
        if self.process.has_window() { RING } else { usual }
    }

    /// Hands out a part of the file, of [`length`](Self::length).
    pub(super) fn chunk(&self, length: usize) -> Option<(u64, *mut u8)> {
        self.base()?;
        if self.process.has_window() {
            return self.process.table_place(ticks());
        }
        let (offset, start, _) = self.process.chunk(length, false)?;
        Some((offset, start))
    }

    /// Takes back a part that is not needed because another thread was faster. Its headers are already written.
    pub(super) fn give_back(&self, start: *mut u8) {
        if self.process.has_window() {
            self.process.give_back(start, ticks());
        } else {
            // SAFETY: the header of a part that only this thread has. The range stays empty: a reader skips zeros.
            unsafe { start.write_bytes(0, CHUNK_HEADER) };
        }
    }
}
