//! Returns the free pages of the calling thread's arena to the system.
//!
//! `malloc_trim` returns free pages within all arenas, one after the other, but only the top of the main arena. glibc
//! returns the top of another arena when a block of 64 KiB or more is freed in that arena. It returns the top down to
//! `trim_threshold` and `top_pad` (128 KiB each, more once large blocks were freed). So we take the arena's free memory
//! by `malloc`, block by block. We return the pages of each block while it is ours, and then free all blocks.
//!
//! Nothing is assumed about malloc's data structures: under valgrind, or with another malloc preloaded, this just
//! allocates and frees a number of blocks. (The sizes that glibc writes before its blocks would tell the end of free
//! memory sooner, but to read them crashes under valgrind and under a preloaded malloc.)

use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::idle::Turns;
use allocanary_sys::sys::page_bytes;

/// The sizes of the blocks that are taken, the largest first. Freeing a block of the first size (over 64 KiB,
/// FASTBIN_CONSOLIDATION_THRESHOLD) merges the arena's small blocks and trims its top. The other sizes find free memory
/// between blocks in use. Free memory smaller than the last size hardly contains a whole page. All sizes are larger
/// than the blocks of thread caches and smaller than blocks that are mapped one by one.
const SIZES: [usize; 3] = [120 << 10, 32 << 10, 8 << 10];

/// The maximum number of blocks of each size. So many take some milliseconds, while other threads may need the arena.
const MOST: usize = 1024;

/// The search ends after this many blocks without a page in memory. Either the arena is growing, or its free memory was
/// returned before.
const ENOUGH: usize = 16;

/// One thread at a time returns an arena's memory: otherwise threads that share the arena would wait for its lock at
/// each block.
static ARENAS: Arenas = Arenas::new();

/// The minimum distance of two arenas (HEAP_MAX_SIZE).
const APART: usize = 64 << 20;

/// The maximum number of arenas that have separate entries. With more arenas, two may share an entry. If threads of
/// both work at the same moment, one arena is left until the next time.
const ENTRIES: usize = 64;

/// An entry for each arena. The entry does not follow from the address alone: the main arena may be at any address, and would share an
/// entry with another arena with a probability of 3 in 64 (computed for four arenas).
struct Arenas {
    /// The arena of each entry: its address in units of [`APART`], plus one. 0 means none yet.
    places: [AtomicUsize; ENTRIES],
    turns: [Turns; ENTRIES],
}

impl Arenas {
    const fn new() -> Self {
        Arenas { places: [const { AtomicUsize::new(0) }; ENTRIES], turns: [const { Turns::new() }; ENTRIES] }
    }

    /// The entry of the arena that has a block at this address.
    #[inline]
    fn turns_of(&self, address: usize) -> &Turns {
        let place = address / APART + 1;
        let first = place % ENTRIES;
        let is_of = |at: &usize| {
            let entry = &self.places[*at];
            let found = match entry.load(Ordering::Relaxed) {
                0 => entry.compare_exchange(0, place, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(place),
                found => found,
            };
            found == place
        };
        let at = (first..ENTRIES).chain(0..first).find(is_of).unwrap_or(first);
        &self.turns[at]
    }
}

/// Gives the free pages of the calling thread's arena back to the system.
#[inline]
pub fn give_back() {
    // SAFETY: any size may be requested; the block is ours, and not used after this.
    let place = unsafe {
        let block = libc::malloc(SIZES[2]);
        libc::free(block);
        block.addr()
    };
    ARENAS.turns_of(place).take(give_back_alone);
}

/// Takes blocks of each size until they have no page in memory, returns their pages, and then frees all of the blocks.
#[inline]
fn give_back_alone() {
    let mut taken: *mut c_void = null_mut();
    let mut empty: [[*mut c_void; ENOUGH]; SIZES.len()] = [[null_mut(); ENOUGH]; SIZES.len()];
    for (size, empty) in SIZES.into_iter().zip(&mut empty) {
        let mut empties = empty.iter_mut();
        for _ in 0..MOST {
            // SAFETY: any size may be requested.
            let block = unsafe { libc::malloc(size) };
            if block.is_null() {
                break;
            }
            if release(block.expose_provenance(), size) {
                // The taken blocks form a list. Its pointers are in the blocks' first words, on pages that are not
                // returned.
                // SAFETY: ours, aligned, and longer than a pointer.
                unsafe { block.cast::<*mut c_void>().write(taken) };
                taken = block;
            } else if let Some(place) = empties.next() {
                *place = block; // not written to: that would bring a page in
            } else {
                // SAFETY: the block is ours, and not used after this.
                unsafe { libc::free(block) };
                break;
            }
        }
    }
    while !taken.is_null() {
        // SAFETY: written above; the returned pages do not include it.
        let next = unsafe { taken.cast::<*mut c_void>().read() };
        // SAFETY: the block is ours, and not used after this.
        unsafe { libc::free(taken) };
        taken = next;
    }
    for block in empty.into_iter().flatten() {
        // SAFETY: the block is ours and not used after this, or null, for which free does nothing.
        unsafe { libc::free(block) };
    }
}

/// Gives the whole pages within a block back to the system. Returns whether one of them was in memory. The block's
/// first bytes stay.
#[inline]
fn release(start: usize, bytes: usize) -> bool {
    let page = page_bytes() as usize;
    let (first, last) = ((start + size_of::<*mut c_void>()).next_multiple_of(page), (start + bytes) / page * page);
    if first >= last {
        return false;
    }
    let pages = with_exposed_provenance_mut::<c_void>(first);
    let mut resident = [0_u8; SIZES[0] / 4096 + 1]; // pages are 4 KiB or larger
    // SAFETY: the kernel writes a byte for each of these pages, which the array has.
    let known = unsafe { libc::mincore(pages, last - first, resident.as_mut_ptr()) } == 0;
    if !known || !resident.iter().any(|page| page & 1 == 1) {
        return false;
    }
    // SAFETY: whole pages of a block that is ours, and whose content nobody wants.
    unsafe { libc::madvise(pages, last - first, libc::MADV_DONTNEED) };
    true
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::super::keeping;
    use super::*;

    const SIZE: usize = 100 << 10; // smaller than blocks that glibc maps separately

    /// Each test locks it: if another thread works on the same arena, `give_back` returns before the memory is returned.
    static ALONE: Mutex<()> = Mutex::new(());

    /// Pages of these blocks that are in memory.
    fn resident(places: &[usize]) -> usize {
        let page = page_bytes() as usize;
        let of = |place: &usize| {
            let first = place.next_multiple_of(page);
            let mut pages = vec![0_u8; (place + SIZE - first) / page];
            let start = with_exposed_provenance_mut(first);
            // SAFETY: the kernel writes a byte for each page. A page that is no longer mapped gives an error, and counts
            // as not in memory.
            let failed = unsafe { libc::mincore(start, pages.len() * page, pages.as_mut_ptr()) } != 0;
            if failed { 0 } else { pages.iter().filter(|page| **page & 1 == 1).count() }
        };
        places.iter().map(of).sum()
    }

    /// Sets the free bytes above which glibc itself returns the top of an arena when a large block is freed.
    fn set_trim_threshold(bytes: i64) {
        // SAFETY: a number for malloc.
        assert_eq!(unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, bytes as i32) }, 1);
    }

    /// Runs in a separate thread. `keep` says which of 40 blocks stay. Returns how many pages of the other blocks are
    /// in memory, twice: before the blocks are freed, and after their memory was given back.
    fn before_and_after(keep: fn(usize) -> bool) -> (usize, usize) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let work = move || {
            set_trim_threshold(1 << 30); // so that only our code gives memory back
            let blocks: Vec<_> = (0..40).map(|number| (number, vec![1_u8; SIZE])).collect();
            let (kept, freed): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|(number, _)| keep(*number));
            let places: Vec<usize> = freed.iter().map(|(_, block)| block.as_ptr().expose_provenance()).collect();
            let before = resident(&places);
            drop(freed);
            give_back();
            let after = resident(&places);
            set_trim_threshold(keeping::DEFAULT);
            assert!(kept.iter().all(|(_, block)| block.iter().all(|byte| *byte == 1)));
            (before, after)
        };
        std::thread::spawn(work).join().unwrap()
    }

    #[test]
    fn each_arena_has_an_entry_of_its_own() {
        let arenas = Arenas::new();
        // Some addresses differ by 4 GiB, so that their first choice is the same entry.
        let places: Vec<usize> = (0..ENTRIES).map(|at| (at % 8) * APART + (at / 8) * ENTRIES * APART).collect();
        let mut entries: Vec<*const Turns> = places.iter().map(|place| &raw const *arenas.turns_of(*place)).collect();
        let again = places.iter().map(|place| &raw const *arenas.turns_of(*place + 100));
        assert!(again.eq(entries.iter().copied()), "an arena keeps its entry");
        entries.sort_unstable();
        entries.dedup();
        assert_eq!(entries.len(), ENTRIES);
        arenas.turns_of(usize::MAX); // one arena too many shares an entry
    }

    #[test]
    fn the_top_of_a_threads_arena_goes_back() {
        let (before, after) = before_and_after(|_| false);
        assert!(before > 40 * 20 && after * 8 <= before, "{after} of {before} pages are still there");
    }

    #[test]
    fn what_is_free_between_blocks_that_live_goes_back() {
        let (before, after) = before_and_after(|number| number % 4 == 3);
        assert!(before > 30 * 20 && after * 8 <= before, "{after} of {before} pages are still there");
    }

    #[test]
    fn what_is_alive_stays_as_it_is_whoever_shares_the_arena() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            for seed in 0..20_usize {
                scope.spawn(move || {
                    let mut kept: Vec<Vec<u8>> = Vec::new();
                    for round in 0..100_usize {
                        let size = 1 + (round * 7919 + seed * 104_729) % 90_000;
                        kept.push(vec![size as u8; size]);
                        if round % 3 > 0 {
                            kept.swap_remove(round / 3 % kept.len());
                        }
                        give_back();
                    }
                    assert!(kept.iter().all(|block| block.iter().all(|byte| *byte == block.len() as u8)));
                });
            }
        });
    }
}
