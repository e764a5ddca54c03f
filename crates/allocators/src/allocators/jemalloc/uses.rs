//! What jemalloc does with its memory. In: its statistics, of all arenas together. Out: bytes by use.

use tikv_jemalloc_ctl::{epoch, raw};

use crate::allocator::Uses;
use allocanary_kernel::sys::page_bytes;

/// The statistics of a new epoch. The thread caches have a counter of their own; the blocks in them also count as
/// allocated.
#[inline]
pub fn uses() -> Uses {
    if epoch::advance().is_err() {
        return Uses::default();
    }
    // SAFETY: every key below is a `size_t`. 4096 stands for all arenas (`MALLCTL_ARENAS_ALL`).
    let read = |key: &[u8]| unsafe { raw::read::<usize>(key) }.ok().map(|value| value as u64);
    let pages = |key: &[u8]| read(key).map(|pages| pages * page_bytes());
    let allocated = read(b"stats.allocated\0");
    let cached = read(b"stats.arenas.4096.tcache_bytes\0");
    let active = read(b"stats.active\0");
    let less = |(from, bytes): (u64, u64)| from.saturating_sub(bytes);
    Uses {
        held: allocated.zip(cached).map(less),
        cached,
        inside: active.zip(allocated).map(less),
        dirty: pages(b"stats.arenas.4096.pdirty\0"),
        muzzy: pages(b"stats.arenas.4096.pmuzzy\0"),
        own: read(b"stats.metadata\0"),
    }
}
