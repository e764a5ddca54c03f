//! Room for the tables of stacks. In: a process and the file that its tables are in. Out: parts of that file.

use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use crate::writer::process::Process;

/// A process, and the file that its tables lie in.
pub(super) struct Room<'a> {
    pub(super) process: &'a Process,
    pub(super) base: &'a AtomicPtr<u8>,
}

impl Room<'_> {
    /// The mapped file. None in the child of a fork that has interrupted this.
    pub(super) fn base(&self) -> Option<*mut u8> {
        let base = self.base.load(SeqCst);
        (!base.is_null() && base == self.process.base()).then_some(base)
    }

    /// Hands out a part of the file for a table.
    pub(super) fn chunk(&self, length: usize) -> Option<(u64, *mut u8)> {
        self.base()?;
        let (offset, start, _) = self.process.chunk(length, false)?;
        Some((offset, start))
    }
}
