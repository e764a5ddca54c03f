//! The state of the whole sampler: the mean distance, the library that is left out, and whether a filter comes. In: the calls that turn the
//! sampler on and off. Out: the values.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The mean distance of samples, in bytes; 0 before the sampler is on.
pub(super) static MEAN: AtomicU64 = AtomicU64::new(0);
/// The address range of the library whose frames are left out; empty in a program that profiles itself.
pub(super) static OWN: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Whether the process has given itself a filter of system calls, or is about to.
pub(super) static IS_BEFORE_FILTER: AtomicBool = AtomicBool::new(false);

/// Whether [`before_filter`](super::before_filter) was called.
pub fn is_before_filter() -> bool {
    IS_BEFORE_FILTER.load(SeqCst)
}
