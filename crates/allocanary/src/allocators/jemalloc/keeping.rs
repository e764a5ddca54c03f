//! Keeping freed memory by arenas that never decay. In: each arena's own decay time. Out: the same times, restored.

use std::collections::BTreeMap;

use tikv_jemalloc_ctl::raw;

use super::{Jemalloc, for_each_arena, refused};
use crate::allocator::{Allocator, Keeping};
use crate::error::{Pages, Result};

/// Used instead of an arena's number, for the decay time of arenas that are made later.
const TO_COME: usize = usize::MAX;

const DECAY: &[u8] = b"arena.0.dirty_decay_ms\0";

/// Turns decay off, in existing arenas and in later ones.
#[inline]
pub fn keep(allocator: &Jemalloc) -> Result<Keeping> {
    let mut before = vec![(TO_COME, allocator.decay(Pages::Dirty)?)];
    let mut mib = [0_usize; 3];
    raw::name_to_mib(DECAY, &mut mib).map_err(refused("reading decay"))?;
    for_each_arena(|arena| {
        mib[1] = arena;
        // SAFETY: the key is an `ssize_t`.
        let millis = unsafe { raw::read_mib::<isize>(&mib) };
        before.extend(millis.ok().map(|millis| (arena, millis as i64)));
    });
    allocator.set_decay(Pages::Dirty, -1)?;
    Ok(Keeping { at_most: None, lost: None, before })
}

/// Restores the decay time of every arena. An arena that was made meanwhile gets the time that it would have had.
#[inline]
pub fn stop(allocator: &Jemalloc, keeping: &Keeping) {
    let before: BTreeMap<usize, i64> = keeping.before.iter().copied().collect();
    let to_come = before.get(&TO_COME).copied().unwrap_or(-1);
    let automatic = allocator.most_arenas().ok().flatten().map(|most| most as usize);
    let _ = allocator.set_decay(Pages::Dirty, to_come); // the keys were there when `keep` used them
    let mut mib = [0_usize; 3];
    if raw::name_to_mib(DECAY, &mut mib).is_err() {
        return;
    }
    for_each_arena(|arena| {
        // The arena after the automatic ones is for blocks above oversize_threshold. It purges at once where the others
        // decay (arena_choose_huge).
        let new = if Some(arena) == automatic { to_come.min(0) } else { to_come };
        let millis = before.get(&arena).copied().unwrap_or(new);
        mib[1] = arena;
        // SAFETY: the key is an `ssize_t`. An arena that went away meanwhile has no pages to keep.
        let _ = unsafe { raw::write_mib(&mib, millis as isize) };
    });
}

/// Purges arenas, those with the most freed pages first, until at most `most` bytes of such pages are left.
#[cfg(feature = "stats")]
#[inline]
pub fn settle(most: u64) -> Result<u64> {
    let mut mib = [0_usize; 4];
    raw::name_to_mib(b"stats.arenas.0.pdirty\0", &mut mib).map_err(refused("reading freed pages"))?;
    let mut freed = Vec::new();
    for_each_arena(|arena| {
        mib[2] = arena;
        // SAFETY: the key is a `size_t`.
        let pages = unsafe { raw::read_mib::<usize>(&mib) }.unwrap_or(0);
        freed.push((pages as u64 * allocanary_sys::sys::page_bytes(), arena));
    });
    freed.sort_unstable_by(|a, b| b.cmp(a));
    let mut left: u64 = freed.iter().map(|(bytes, _)| bytes).sum();
    let mut given_back = 0;
    let mut purge = [0_usize; 3];
    raw::name_to_mib(b"arena.0.purge\0", &mut purge).map_err(refused("purging an arena"))?;
    for (bytes, arena) in freed {
        if left <= most {
            break;
        }
        purge[1] = arena;
        let (null, none) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a void mallctl reads and writes nothing through the null pointers; the name's parts are three.
        let error = unsafe {
            tikv_jemalloc_sys::mallctlbymib(purge.as_ptr(), purge.len(), null, none, std::ptr::null_mut(), 0)
        };
        if error == 0 {
            left -= bytes;
            given_back += bytes;
        }
    }
    Ok(given_back)
}
