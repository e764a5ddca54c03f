//! The calling thread's arena. In: nothing. Out: its free pages are the system's again.
//!
//! `malloc_trim` gives back free pages within all arenas, one after the other, and the top of the main one only. The others'
//! tops go back when a block of 64 KiB or more is freed in that arena, down to `trim_threshold` and `top_pad` (128 KiB each,
//! more once large blocks were freed). So we take the arena's free blocks by `malloc`, each made as long as the room that it
//! was cut from, the top as the last; then we give their pages back and free them.
//!
//! That reads what malloc writes before each block, its size and three flags (the same since glibc 2.3). It is only read: a wrong
//! guess costs a block that moves.

use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::idle::Turns;
use allocanary_kernel::sys::page_bytes;

/// The least free blocks that are looked for, the longest first. A free of the first (FASTBIN_CONSOLIDATION_THRESHOLD) merges
/// the arena's small blocks and trims its top; below the second there is hardly a whole page. Both are longer than what thread
/// caches hold and shorter than what is mapped by itself.
const SIZES: [usize; 2] = [64 << 10, 8 << 10];

/// The most blocks that are taken at a time: some 2 ms. Others may share the arena.
const MOST: usize = 1024;

/// A block's size stands before it, and in its lowest bits what the block is.
const HEADER: usize = 2 * size_of::<usize>();
const FLAGS: usize = 7;
const IS_MAPPED: usize = 2;
/// Set in a block that is in use, of an arena that is not the main one. Clear where it is free.
const OTHER_ARENA: usize = 4;

/// What stands before a block.
#[derive(Clone, Copy)]
struct Header(usize);

impl Header {
    /// Of the block at this address, or of one that would begin there.
    #[inline]
    fn of(block: usize) -> Self {
        let header = with_exposed_provenance::<AtomicUsize>(block - size_of::<usize>());
        // SAFETY: within the arena's heap, mapped and aligned: at least a header follows every block. Other threads that share
        // the arena may write it at this moment.
        Header(unsafe { &*header }.load(Ordering::Relaxed))
    }

    #[inline]
    fn bytes(self) -> usize {
        self.0 & !FLAGS
    }

    #[inline]
    fn has(self, flag: usize) -> bool {
        self.0 & flag != 0
    }
}

/// What follows a block.
enum Available {
    /// Nothing that is known to be free.
    None,
    /// So many bytes can be had in place.
    Free(usize),
    /// The same, and it is all that the arena has left.
    Top(usize),
}

/// One thread at a time gives an arena back: those that share it would wait for its lock at each block. Of two arenas
/// that share an entry at the same moment one is left until next time.
static ARENAS: [Turns; 64] = [const { Turns::new() }; 64];

/// The least distance of two arenas (HEAP_MAX_SIZE).
const APART: usize = 64 << 20;

/// Gives back the free pages of the calling thread's arena, whatever `trim_threshold` says; of the main arena its top.
#[inline]
pub fn give_back() {
    // SAFETY: any size may be asked for; what came is ours, and used no more.
    let place = unsafe {
        let block = libc::malloc(SIZES[1]);
        libc::free(block);
        block.addr()
    };
    ARENAS[place / APART % ARENAS.len()].take(give_back_alone);
}

#[inline]
fn give_back_alone() {
    let mut taken = null_mut();
    let mut count = 0;
    for size in SIZES {
        while count < MOST {
            // SAFETY: any size may be asked for.
            let block = unsafe { libc::malloc(size) };
            if block.is_null() {
                break;
            }
            let room = room_after(block);
            if matches!((&room, size), (Available::Top(_), size) if size == SIZES[0]) {
                // The next size takes the top. Two that took it would make the arena grow.
                // SAFETY: ours, and used no more.
                unsafe { libc::free(block) };
                break;
            }
            let (bytes, is_last) = match room {
                Available::None => (size, Header::of(block.addr()).0 & (IS_MAPPED | OTHER_ARENA) != OTHER_ARENA),
                Available::Free(bytes) => (bytes, false),
                Available::Top(bytes) => (bytes, true),
            };
            // SAFETY: the block is ours, and the size not 0. One that cannot be had leaves the block as it is.
            let grown = if bytes > size { unsafe { libc::realloc(block, bytes) } } else { block };
            let (block, bytes) = if grown.is_null() { (block, size) } else { (grown, bytes) };
            // The list of what is taken runs through the blocks' first words.
            // SAFETY: ours, aligned, and longer than a pointer.
            unsafe { block.cast::<*mut c_void>().write(taken) };
            release(block.expose_provenance() + HEADER, bytes - HEADER);
            taken = block;
            count += 1;
            if is_last {
                break;
            }
        }
    }
    while !taken.is_null() {
        // SAFETY: written above; the pages that went back do not include it.
        let next = unsafe { taken.cast::<*mut c_void>().read() };
        // SAFETY: ours, and used no more.
        unsafe { libc::free(taken) };
        taken = next;
    }
}

/// How long the block can be, if what follows it is free. In the main arena that is known of the top alone.
#[inline]
fn room_after(block: *mut c_void) -> Available {
    let own = Header::of(block.addr());
    if own.has(IS_MAPPED) {
        return Available::None;
    }
    let next = Header::of(block.addr() + own.bytes());
    let both = own.bytes() + next.bytes();
    // A top ends with its heap, at a page's border.
    let page = page_bytes() as usize;
    let ends_with_a_page = (block.addr() - HEADER + both).is_multiple_of(page) && next.bytes() > page;
    match (next.has(OTHER_ARENA), own.has(OTHER_ARENA)) {
        (true, _) => Available::None,
        // 32 bytes of a top must stay.
        (false, _) if ends_with_a_page => Available::Top(both - 4 * HEADER),
        (false, true) => Available::Free(both - HEADER),
        (false, false) => Available::None,
    }
}

/// Gives back the whole pages of a block; locked ones stay.
#[inline]
fn release(start: usize, bytes: usize) {
    let page = page_bytes() as usize;
    let (first, last) = (start.next_multiple_of(page), (start + bytes) / page * page);
    if first < last {
        // SAFETY: whole pages of a block that is ours, and whose content nobody wants.
        unsafe { libc::madvise(with_exposed_provenance_mut(first), last - first, libc::MADV_DONTNEED) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    const SIZE: usize = 100 << 10; // below what is mapped by itself

    /// Held by each test: what another thread of the same arena gives back, that one need not wait for.
    static ALONE: Mutex<()> = Mutex::new(());

    /// Pages of these blocks that are in memory.
    fn resident(places: &[usize]) -> usize {
        let page = page_bytes() as usize;
        let of = |place: &usize| {
            let first = place.next_multiple_of(page);
            let mut pages = vec![0_u8; (place + SIZE - first) / page];
            let start = with_exposed_provenance_mut(first);
            // SAFETY: the kernel writes a byte for each page. What is not mapped any more is an error, and not in memory.
            let failed = unsafe { libc::mincore(start, pages.len() * page, pages.as_mut_ptr()) } != 0;
            if failed { 0 } else { pages.iter().filter(|page| **page & 1 == 1).count() }
        };
        places.iter().map(of).sum()
    }

    /// In a thread that has another arena than the main one. Which one it gets is glibc's choice: where all are in use, threads
    /// that have just ended among them, it may be the main one. `keep` says which of 40 blocks stay. Pages of the others that are in
    /// memory: before they are freed, and after that was given back.
    fn before_and_after(keep: fn(usize) -> bool) -> (usize, usize) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let work = move || {
            let first = std::hint::black_box(vec![1_u8; SIZE]);
            if !Header::of(first.as_ptr().addr()).has(OTHER_ARENA) {
                return None;
            }
            drop(first);
            let blocks: Vec<_> = (0..40).map(|number| (number, vec![1_u8; SIZE])).collect();
            let (kept, freed): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|(number, _)| keep(*number));
            let places: Vec<usize> = freed.iter().map(|(_, block)| block.as_ptr().expose_provenance()).collect();
            let before = resident(&places);
            drop(freed);
            give_back();
            let after = resident(&places);
            assert!(kept.iter().all(|(_, block)| block.iter().all(|byte| *byte == 1)));
            Some((before, after))
        };
        let mut tries = (0..1000).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1)); // for threads that are ending
            std::thread::spawn(work).join().unwrap()
        });
        tries.find_map(|found| found).expect("an arena of its own for one thread of a thousand")
    }

    #[test]
    fn the_top_of_a_threads_arena_goes_back() {
        let (before, after) = before_and_after(|_| false);
        assert!(before > 40 * 20 && after <= 40, "{after} of {before} pages are still there");
    }

    #[test]
    fn what_is_free_between_blocks_that_live_goes_back() {
        let (before, after) = before_and_after(|number| number % 4 == 3);
        assert!(before > 30 * 20 && after <= 40, "{after} of {before} pages are still there");
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
