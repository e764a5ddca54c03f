//! Turns the keeping of freed pages off and on again. In: the decay time of each arena. Out: decay times of zero, and later the
//! previous times. Allocates nothing.

use tikv_jemalloc_ctl::raw;

use super::{Jemalloc, for_each_arena};
use crate::allocator::Allocator;
use crate::budget::decays::Decays;
use crate::error::Pages;

/// The keys of two decay times: that of arenas that are made later, and that of arena 0.
#[inline]
pub fn keys(pages: Pages) -> (&'static [u8], &'static [u8]) {
    match pages {
        Pages::Dirty => (b"arenas.dirty_decay_ms\0", b"arena.0.dirty_decay_ms\0"),
        Pages::Muzzy => (b"arenas.muzzy_decay_ms\0", b"arena.0.muzzy_decay_ms\0"),
    }
}

/// Sets each decay time to zero. The time of arenas that are made later is set first: an arena that is made during this call then has
/// it too.
#[inline]
pub fn stop(pages: Pages, before: &mut Decays) {
    change_to_come(pages, |now| before.stop_to_come(now));
    change_each(pages, |arena, now| before.stop(arena, now));
}

/// Restores the decay times, in the same order.
#[inline]
pub fn again(allocator: &Jemalloc, pages: Pages, before: &mut Decays) {
    // The arena after the automatic ones is for blocks above oversize_threshold.
    let huge = allocator.most_arenas().ok().flatten().map(|most| most as usize);
    change_to_come(pages, |now| before.again_to_come(now));
    change_each(pages, |arena, now| before.again(arena, now, Some(arena) == huge));
}

#[inline]
fn change_to_come(pages: Pages, change: impl FnOnce(i64) -> Option<i64>) {
    let (key, _) = keys(pages);
    // SAFETY: the key is an `ssize_t`, here and below.
    let now = unsafe { raw::read::<isize>(key) };
    if let Some(millis) = now.ok().and_then(|now| change(now as i64)) {
        // SAFETY: as above.
        let _ = unsafe { raw::write(key, millis as isize) }; // no error is expected, because the key was read just now
    }
}

#[inline]
fn change_each(pages: Pages, mut change: impl FnMut(usize, i64) -> Option<i64>) {
    let mut mib = [0_usize; 3];
    if raw::name_to_mib(keys(pages).1, &mut mib).is_err() {
        return;
    }
    for_each_arena(|arena| {
        mib[1] = arena;
        // SAFETY: as above. An arena that went away meanwhile has no pages to keep.
        let now = unsafe { raw::read_mib::<isize>(&mib) };
        if let Some(millis) = now.ok().and_then(|now| change(arena, now as i64)) {
            // SAFETY: as above.
            let _ = unsafe { raw::write_mib(&mib, millis as isize) };
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(arena: usize) -> String {
        format!("arena.{arena}.dirty_decay_ms\0")
    }

    fn of(arena: usize) -> isize {
        // SAFETY: the key is an `ssize_t`.
        unsafe { raw::read(key(arena).as_bytes()) }.unwrap()
    }

    fn set(arena: usize, millis: isize) {
        // SAFETY: as above.
        unsafe { raw::write(key(arena).as_bytes(), millis) }.unwrap();
    }

    fn created() -> usize {
        // SAFETY: the key is an `unsigned`.
        unsafe { raw::read::<u32>(b"arenas.create\0") }.unwrap() as usize
    }

    /// Tests jemalloc's own arenas. The decisions that need no arena are tested with `Decays`.
    #[test]
    fn live_arenas_keep_nothing_and_each_has_its_time_again() {
        // SAFETY: the key is an `ssize_t`.
        let to_come = || unsafe { raw::read::<isize>(b"arenas.dirty_decay_ms\0") }.unwrap();
        let (default, [a, b, c]) = (to_come(), [created(), created(), created()]);
        set(a, 500);
        set(b, -1);
        set(c, 0);
        let mut before = Decays::new();
        stop(Pages::Dirty, &mut before);
        assert_eq!([to_come(), of(0), of(a), of(b), of(c)], [0; 5]);
        let made = created();
        assert_eq!(of(made), 0, "made meanwhile");
        again(&Jemalloc, Pages::Dirty, &mut before);
        assert_eq!([to_come(), of(0), of(made)], [default; 3]);
        assert_eq!([of(a), of(b), of(c)], [500, -1, 0]);
        stop(Pages::Dirty, &mut before);
        set(a, 8);
        again(&Jemalloc, Pages::Dirty, &mut before);
        assert_eq!([of(a), of(b), of(made)], [8, -1, default], "the program has set one meanwhile");
    }
}
