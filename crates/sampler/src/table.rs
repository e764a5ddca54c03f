//! The table: its header, samples and frames, and what walks need. In: memory. Out: the table of this process.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use allocanary_sys::clocks::monotonic_nanos;
use allocanary_sys::sys::map_zeroed;

use super::frames::Frames;
use super::samples::Samples;
use super::walkers::{Rules, Walkers};
use allocanary_profile::layout::{FRAMES, HEADER, MAGIC, SAMPLES, VERSION, word};

/// The table. If it is all zeros, it has not begun.
#[repr(C)]
pub(super) struct Table {
    pub(super) header: [AtomicU64; HEADER],
    pub(super) samples: Samples,
    pub(super) frames: Frames,
    // Readers from outside do not read the following fields.
    pub(super) rules: Rules,
    pub(super) walkers: Walkers,
}

/// The header's first word while a thread begins the table.
const BEGINNING: u64 = 1;

impl Table {
    /// Maps an empty table that a fork wipes. Each page becomes resident when it is used.
    pub(super) fn map() -> Option<&'static Table> {
        let length = size_of::<Table>().next_multiple_of(4096);
        let start = map_zeroed(length)?;
        // SAFETY: our own mapping. It has no huge pages, because one of them is larger than the table.
        let wiped = unsafe {
            libc::madvise(start.as_ptr().cast(), length, libc::MADV_NOHUGEPAGE);
            libc::madvise(start.as_ptr().cast(), length, libc::MADV_WIPEONFORK)
        };
        // SAFETY: zeros are a table, and the mapping stays. It is aligned to a page.
        (wiped == 0).then(|| unsafe { start.cast::<Table>().as_ref() })
    }

    pub(super) fn is_begun(&self) -> bool {
        self.header[word::MAGIC].load(Acquire) == MAGIC
    }

    /// Begins the table, unless another thread does. Sets `flag` in the header, if blocks from before are not in the table. Returns whether
    /// this call began it.
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
