//! Where the tallies are, and which thread owns each. In: threads that begin and end. Out: each thread's tally, and all tallies.
//!
//! Tallies are never freed, only passed to later threads, so any thread may read any of them at any time. There are no
//! locks: a fork at any moment leaves nothing locked.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::tally::{Shared, Tally};
use allocanary_sys::free_list::FreeList;
use allocanary_sys::sys;

/// A thread's tally; it lives as long as the process.
pub type Mine = &'static Tally;

/// The number of tallies in the first chunk; each further chunk has as many as all before it.
const FIRST: u64 = 32;
/// Enough for 2^31 threads at once.
const CHUNKS: usize = 27;

static CHUNK: [Tally; FIRST as usize] = [const { Tally::new() }; FIRST as usize];
static FURTHER: [AtomicPtr<Tally>; CHUNKS] = [const { AtomicPtr::new(null_mut()) }; CHUNKS];
/// How many tallies were ever claimed; they are numbered from 1.
static CLAIMED: AtomicU64 = AtomicU64::new(0);
/// Tallies whose threads have ended.
static FREE: FreeList = FreeList::new();
static AFTER_THE_END: Shared = Shared(Tally::new());
/// C's key whose destructor runs when a thread ends, plus 1; 0 before there is a key.
static KEY: AtomicU64 = AtomicU64::new(0);

/// The tally of a thread without its own. Its calls return `false`, and then the thread claims a tally.
static NOBODYS: Tally = Tally::nobodys();

thread_local! {
    /// Never null, so that a call needs no check.
    static MINE: Cell<Mine> = const { Cell::new(&NOBODYS) };
    static ENDED: Cell<bool> = const { Cell::new(false) };
}

/// Counts with the thread's own tally, or with the shared one after the thread has returned its tally.
#[inline(always)]
pub fn with(count: impl Fn(Mine) -> bool, rest: impl Fn(&Shared)) {
    if !count(MINE.get()) {
        first_time(count, rest);
    }
}

#[cold]
#[inline(never)]
fn first_time(count: impl Fn(Mine) -> bool, rest: impl Fn(&Shared)) {
    match mine() {
        Some(tally) => _ = count(tally),
        None => rest(&AFTER_THE_END),
    }
}

/// The thread's tally; `None` after the thread's end, or if there is no memory for one.
pub fn mine() -> Option<Mine> {
    let tally = MINE.get();
    if !std::ptr::eq(tally, &NOBODYS) {
        return Some(tally);
    }
    if ENDED.get() {
        return None;
    }
    let number = FREE.pop(|number| existing(number).map(|tally| &tally.next)).or_else(fresh)?;
    let tally = at(number)?;
    tally.begin();
    MINE.set(tally);
    tell_the_end(number);
    Some(tally)
}

/// Every tally that was ever used.
pub fn for_each(mut see: impl FnMut(&Tally)) {
    (1..=CLAIMED.load(Acquire)).filter_map(existing).for_each(&mut see);
    see(&AFTER_THE_END.0);
}

/// A tally that no thread had before.
fn fresh() -> Option<u64> {
    let claimed = CLAIMED.fetch_update(AcqRel, Acquire, |claimed| at(claimed + 1).map(|_| claimed + 1));
    claimed.ok().map(|before| before + 1)
}

/// A tally's chunk, and its place in the chunk: 1..=32 are in chunk 0, 33..=64 in chunk 1, 65..=128 in chunk 2.
fn place(number: u64) -> (usize, usize) {
    let at = number - 1;
    match at / FIRST {
        0 => (0, at as usize),
        times => {
            let chunk = times.ilog2();
            (chunk as usize + 1, (at - (FIRST << chunk)) as usize)
        }
    }
}

fn existing(number: u64) -> Option<Mine> {
    if number == 0 {
        return None;
    }
    match place(number) {
        (0, at) => Some(&CHUNK[at]),
        (chunk, at) => {
            let start = FURTHER.get(chunk - 1)?.load(Acquire);
            // SAFETY: a mapped chunk has a place for each of its numbers. It began as zero bytes, which are a valid
            // tally, and it stays mapped.
            if start.is_null() { None } else { Some(unsafe { &*start.add(at) }) }
        }
    }
}

/// The tally with this number; maps its chunk if it is not mapped yet.
fn at(number: u64) -> Option<Mine> {
    if let Some(tally) = existing(number) {
        return Some(tally);
    }
    let (chunk, _) = place(number);
    let length = (FIRST as usize * size_of::<Tally>()) << (chunk - 1);
    let slot = FURTHER.get(chunk - 1)?;
    let mapped = sys::map_zeroed(length)?;
    if slot.compare_exchange(null_mut(), mapped.as_ptr().cast(), AcqRel, Acquire).is_err() {
        // SAFETY: another thread was faster, and nobody has seen ours.
        unsafe { sys::unmap(mapped, length) };
    }
    existing(number)
}

/// Makes the C library call `ended` when this thread ends, after Rust's own thread-local destructors.
fn tell_the_end(number: u64) {
    if let Some(key) = key() {
        // SAFETY: the key is one that was created. Failure means that the tally is not handed on.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(number as usize)) };
    }
}

fn key() -> Option<libc::pthread_key_t> {
    let known = KEY.load(Acquire);
    if known != 0 {
        return Some((known - 1) as libc::pthread_key_t);
    }
    let mut key = 0;
    // SAFETY: writes the new key; the destructor is a function that stays.
    if unsafe { libc::pthread_key_create(&mut key, Some(ended)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, u64::from(key) + 1, AcqRel, Acquire) {
        Ok(_) => Some(key),
        Err(other) => {
            // SAFETY: another thread was faster; ours was never set.
            unsafe { libc::pthread_key_delete(key) };
            Some((other - 1) as libc::pthread_key_t)
        }
    }
}

extern "C" fn ended(number: *mut libc::c_void) {
    ENDED.set(true);
    MINE.set(&NOBODYS);
    let number = number.addr() as u64;
    if let Some(tally) = existing(number) {
        FREE.push(number, &tally.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_places_one_after_the_other() {
        assert_eq!(
            [1, 32, 33, 64, 65, 128, 129].map(place),
            [(0, 0), (0, 31), (1, 0), (1, 31), (2, 0), (2, 63), (3, 0)]
        );
        assert_eq!(place(1 << 31).0, CHUNKS - 1, "the last chunk's");
    }

    #[test]
    fn threads_at_once_have_tallies_of_their_own_and_hand_them_on() {
        const THREADS: usize = if cfg!(miri) { 40 } else { 100 };
        let gate = std::sync::Barrier::new(THREADS);
        let mut numbers: Vec<usize> = std::thread::scope(|scope| {
            let claim = || {
                let mine = mine().map(|tally| &raw const *tally as usize);
                gate.wait();
                mine.expect("there is memory")
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(claim)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), THREADS);
        for _ in 0..if cfg!(miri) { 10 } else { 1000 } {
            std::thread::spawn(|| assert!(mine().is_some())).join().unwrap();
        }
        let claimed = CLAIMED.load(Acquire);
        assert!(claimed < 300, "tallies are not handed on: {claimed}");
    }
}
