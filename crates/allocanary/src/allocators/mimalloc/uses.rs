//! What mimalloc does with its memory. In: a walk over the pages of all threads. Out: bytes by use.
//!
//! The crate of mimalloc compiles its counters of allocated bytes out, so the pages themselves are counted. A page knows
//! how many of its blocks are used, and how many blocks it has prepared. No block after the prepared ones was ever
//! touched. Freed pages and mimalloc's own structures are not counted: a report derives them from the resident memory.

use std::ffi::c_void;

use super::sys;
use crate::allocator::Uses;

/// Bytes in used blocks, and in the free blocks of the same pages.
struct Tally {
    live: u64,
    free: u64,
}

/// Walks the main heap, which has the pages of all threads. The other threads must be paused.
#[inline]
pub fn uses() -> Uses {
    let mut tally = Tally { live: 0, free: 0 };
    let argument: *mut Tally = &mut tally;
    // SAFETY: a null heap is the main heap; `add` gets the tally, which outlives the call, from this thread only, and it
    // neither allocates nor frees.
    let whole = unsafe { sys::mi_heap_visit_blocks(std::ptr::null_mut(), false, Some(add), argument.cast()) };
    if !whole {
        return Uses::default();
    }
    Uses { live: Some(tally.live), free: Some(tally.free), ..Uses::default() }
}

#[inline]
unsafe extern "C" fn add(
    _heap: *const sys::mi_heap_t,
    area: *const sys::mi_heap_area_t,
    _block: *mut c_void,
    _block_size: usize,
    argument: *mut c_void,
) -> bool {
    // SAFETY: `uses` passes a tally, and mimalloc an area that lives during the call.
    let (tally, area) = unsafe { (&mut *argument.cast::<Tally>(), &*area) };
    let live = (area.used * area.full_block_size) as u64;
    tally.live += live;
    tally.free += (area.committed as u64).saturating_sub(live);
    true
}
