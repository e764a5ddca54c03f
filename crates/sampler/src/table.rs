//! The table: header, samples, frames, and what walks need. In: memory. Out: the table of this process.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use allocanary_sys::clocks::monotonic_nanos;
use allocanary_sys::sys::map_zeroed;

use super::frames::Frames;
use super::samples::Samples;
use super::walkers::{Rules, Walkers};
use allocanary_profile::layout::{FRAMES, HEADER, MAGIC, SAMPLES, VERSION, word};

/// The table. All zeros is one that has not begun.
#[repr(C)]
pub(super) struct Table {
    pub(super) header: [AtomicU64; HEADER],
    pub(super) samples: Samples,
    pub(super) frames: Frames,
    // What follows is not read from outside.
    pub(super) rules: Rules,
    pub(super) walkers: Walkers,
}

/// The header's first word while a thread begins the table.
const BEGINNING: u64 = 1;

impl Table {
    /// Maps an empty table that a fork wipes. Its pages become resident when they are used, each by itself.
    pub(super) fn map() -> Option<&'static Table> {
        let length = size_of::<Table>().next_multiple_of(4096);
        let start = map_zeroed(length)?;
        // SAFETY: our own mapping. Without huge pages: one of them is larger than the table.
        let wiped = unsafe {
            libc::madvise(start.as_ptr().cast(), length, libc::MADV_NOHUGEPAGE);
            libc::madvise(start.as_ptr().cast(), length, libc::MADV_WIPEONFORK)
        };
        // SAFETY: zeros are a table, and the mapping stays. It is aligned to a page.
        (wiped == 0).then(|| unsafe { start.cast::<Table>().as_ref() })
    }

    /// Whether it has begun.
    pub(super) fn is_begun(&self) -> bool {
        self.header[word::MAGIC].load(Acquire) == MAGIC
    }

    /// Begins it, unless another thread does. Sets a flag of the header, if blocks from before are not in it. Returns whether this call did.
    pub(super) fn begin(&self, mean: u64, flag: Option<usize>) -> bool {
        if self.header[word::MAGIC].compare_exchange(0, BEGINNING, Acquire, Relaxed).is_err() {
            return false;
        }
        let at = |part: usize| (part - (&raw const *self).addr()) as u64;
        for (index, value) in [
            (word::VERSION, VERSION),
            (word::PID, u64::from(std::process::id())),
            (word::MEAN, mean),
            (word::SAMPLES, SAMPLES as u64),
            (word::SAMPLES_AT, at((&raw const self.samples).addr())),
            (word::FRAMES, FRAMES as u64),
            (word::FRAMES_AT, at((&raw const self.frames).addr())),
            (word::BEGAN, monotonic_nanos()),
        ] {
            self.header[index].store(value, Relaxed);
        }
        if let Some(flag) = flag {
            self.header[flag].store(1, Relaxed);
        }
        self.header[word::MAGIC].store(MAGIC, Release);
        true
    }

    /// Adds one to a count of the header.
    pub(super) fn count(&self, index: usize) {
        self.header[index].fetch_add(1, Relaxed);
    }
}
