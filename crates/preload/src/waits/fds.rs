//! Waits for descriptors. In: epoll_wait, epoll_pwait, poll, ppoll, select, pselect. Out: the C library's answers.
//!
//! The kernel restarts none of these waits after a signal handler. The second wait unblocks signals as it begins. So a signal that
//! came between the waits ends it with EINTR, as it would have ended the first wait. A signal may come in the few instructions between
//! the end of the first wait and the moment at which signals are blocked. Its effect is that of a signal just before the call.

use std::ffi::c_int;
use std::ptr::null_mut;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::reals::{missing, reals};
use super::split::{before, between, first_of};
use super::times::{self, Until, millis, nanos_of, nanos_of_millis, timespec};
use crate::handlers::signals::Mask;

type EpollWait = unsafe extern "C" fn(c_int, *mut epoll_event, c_int, c_int) -> c_int;
type EpollPwait = unsafe extern "C" fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;
type Poll = unsafe extern "C" fn(*mut pollfd, nfds_t, c_int) -> c_int;
type Ppoll = unsafe extern "C" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
type Select = unsafe extern "C" fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int;
type Pselect =
    unsafe extern "C" fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t) -> c_int;
type Accept = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int;
type Accept4 = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t, c_int) -> c_int;

reals! {
    epoll_wait: c"epoll_wait" EpollWait,
    epoll_pwait: c"epoll_pwait" EpollPwait,
    poll: c"poll" Poll,
    ppoll: c"ppoll" Ppoll,
    select: c"select" Select,
    pselect: c"pselect" Pselect,
    accept: c"accept" Accept,
    accept4: c"accept4" Accept4,
}

/// The signal mask of the second wait: the caller's mask if it gave one, else the thread's own.
fn second_mask(given: *const sigset_t, before: Mask) -> sigset_t {
    // SAFETY: the caller of the C function passes a whole set or null.
    unsafe { given.as_ref() }.copied().unwrap_or_else(|| before.set())
}

/// C's `epoll_wait`.
///
/// # Safety
///
/// C's contract.
pub unsafe fn epoll_wait(file: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
    let Some(real) = REAL.epoll_wait() else { return missing() };
    let Some(first) = first_of(nanos_of_millis(timeout)) else {
        // SAFETY: the caller's promise.
        return unsafe { real(file, events, most, timeout) };
    };
    let until = Until::after(nanos_of_millis(timeout));
    // SAFETY: the caller's promise.
    let came = unsafe { real(file, events, most, millis(Some(first))) };
    let Some(second) = REAL.epoll_pwait().filter(|_| came == 0) else { return came };
    let Some(before) = between() else {
        // SAFETY: the caller's promise.
        return unsafe { real(file, events, most, millis(until.left())) };
    };
    // SAFETY: the caller's promise, and a whole set.
    let came = unsafe { second(file, events, most, millis(until.left()), &before.set()) };
    before.restore();
    came
}

/// C's `epoll_pwait`.
///
/// # Safety
///
/// C's contract.
pub unsafe fn epoll_pwait(
    file: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let Some(real) = REAL.epoll_pwait() else { return missing() };
    let Some(first) = first_of(nanos_of_millis(timeout)) else {
        // SAFETY: the caller's promise.
        return unsafe { real(file, events, most, timeout, mask) };
    };
    let until = Until::after(nanos_of_millis(timeout));
    // SAFETY: the caller's promise.
    let came = unsafe { real(file, events, most, millis(Some(first)), mask) };
    if came != 0 {
        return came;
    }
    let Some(before) = between() else {
        // SAFETY: the caller's promise.
        return unsafe { real(file, events, most, millis(until.left()), mask) };
    };
    // SAFETY: the caller's promise, and a whole set.
    let came = unsafe { real(file, events, most, millis(until.left()), &second_mask(mask, before)) };
    before.restore();
    came
}

/// C's `poll`.
///
/// # Safety
///
/// C's contract.
pub unsafe fn poll(files: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    let Some(real) = REAL.poll() else { return missing() };
    let Some(first) = first_of(nanos_of_millis(timeout)) else {
        // SAFETY: the caller's promise.
        return unsafe { real(files, count, timeout) };
    };
    let until = Until::after(nanos_of_millis(timeout));
    // SAFETY: the caller's promise.
    let came = unsafe { real(files, count, millis(Some(first))) };
    let Some(second) = REAL.ppoll().filter(|_| came == 0) else { return came };
    let Some(before) = between() else {
        // SAFETY: the caller's promise.
        return unsafe { real(files, count, millis(until.left())) };
    };
    // SAFETY: the caller's promise; whole structures.
    let came = unsafe { second(files, count, rest(until).as_ptr(), &before.set()) };
    before.restore();
    came
}

/// C's `ppoll`.
///
/// # Safety
///
/// C's contract.
pub unsafe fn ppoll(files: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
    let Some(real) = REAL.ppoll() else { return missing() };
    // SAFETY: null, or a whole structure.
    let total = unsafe { timeout.as_ref() }.map(nanos_of);
    let Some(first) = first_of(total.flatten()).filter(|_| total != Some(None)) else {
        // SAFETY: the caller's promise.
        return unsafe { real(files, count, timeout, mask) };
    };
    let until = Until::after(total.flatten());
    // SAFETY: the caller's promise.
    let came = unsafe { real(files, count, &timespec(first), mask) };
    if came != 0 {
        return came;
    }
    let Some(before) = between() else {
        // SAFETY: the caller's promise; whole structures.
        return unsafe { real(files, count, rest(until).as_ptr(), mask) };
    };
    // SAFETY: the caller's promise; whole structures.
    let came = unsafe { real(files, count, rest(until).as_ptr(), &second_mask(mask, before)) };
    before.restore();
    came
}

/// The rest of a wait, as ppoll and pselect take it.
struct Rest(Option<timespec>);

impl Rest {
    fn as_ptr(&self) -> *const timespec {
        self.0.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)
    }
}

fn rest(until: Until) -> Rest {
    Rest(until.left().map(timespec))
}

/// `FD_SETSIZE`. A program that has more descriptors must make its own longer sets. Such a wait is not split.
const MOST_FILES: c_int = 1024;

/// The most words of a set. The kernel reads and writes whole words.
const MOST_WORDS: usize = MOST_FILES as usize / 64;

/// The three sets of select. A wait that ends by its time-out has emptied them. The kernel reads and writes whole words, up to the
/// number of descriptors, and a program may have allocated no more than these words.
#[derive(Clone, Copy)]
struct Sets {
    places: [*mut fd_set; 3],
    words: usize,
}

/// The contents of the three sets.
type Contents = [[u64; MOST_WORDS]; 3];

impl Sets {
    /// The sets of a wait for `count` descriptors, from 0 to [`MOST_FILES`].
    fn new(count: c_int, places: [*mut fd_set; 3]) -> Self {
        Sets { places, words: count.clamp(0, MOST_FILES).cast_unsigned().div_ceil(64) as usize }
    }

    fn copy(self) -> Contents {
        let mut contents = [[0; MOST_WORDS]; 3];
        for (place, content) in self.places.into_iter().zip(&mut contents).filter(|(place, _)| !place.is_null()) {
            // SAFETY: the caller of the C function passes sets of that many words, which the kernel is about to read.
            unsafe { place.cast::<u8>().copy_to_nonoverlapping(content.as_mut_ptr().cast(), self.words * 8) };
        }
        contents
    }

    /// Restores the bits that the kernel has cleared. A word that had no descriptor is not written, because the kernel has not changed
    /// it.
    fn put(self, contents: Contents) {
        for (place, content) in self.places.into_iter().zip(contents).filter(|(place, _)| !place.is_null()) {
            for (at, word) in content.into_iter().enumerate().filter(|(_, word)| *word != 0) {
                // SAFETY: as above; words beyond the sets' are 0. A set need not be aligned.
                unsafe { place.cast::<u64>().add(at).write_unaligned(word) };
            }
        }
    }
}

/// C's `select`, which writes the remaining time to `timeout`.
///
/// # Safety
///
/// C's contract.
pub unsafe fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    error: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let Some(real) = REAL.select() else { return missing() };
    // SAFETY: null, or a whole structure.
    let given = unsafe { timeout.as_ref() }.map(|time| {
        // As in the C library, a million microseconds or more count as seconds.
        let micros = u64::try_from(time.tv_usec).ok()?;
        u64::try_from(time.tv_sec).ok()?.checked_mul(1_000_000)?.checked_add(micros)?.checked_mul(1000)
    });
    let may_split = given != Some(None) && (0..=MOST_FILES).contains(&count);
    let (Some(first), Some(second)) = (first_of(given.flatten()).filter(|_| may_split), REAL.pselect()) else {
        // SAFETY: the caller's promise.
        return unsafe { real(count, read, write, error, timeout) };
    };
    let (sets, until) = (Sets::new(count, [read, write, error]), Until::after(given.flatten()));
    let contents = sets.copy();
    let mut short = times::timeval(first);
    // SAFETY: the caller's promise, and a whole structure.
    let mut came = unsafe { real(count, read, write, error, &mut short) };
    if came == 0 {
        sets.put(contents);
        if let Some(before) = between() {
            // SAFETY: the caller's promise; whole structures.
            came = unsafe { second(count, read, write, error, rest(until).as_ptr(), &before.set()) };
            before.restore();
        } else {
            let mut left = until.left().map(times::timeval);
            let left = left.as_mut().map_or(null_mut(), std::ptr::from_mut);
            // SAFETY: the caller's promise, and null or a whole structure.
            came = unsafe { real(count, read, write, error, left) };
        }
    }
    // SAFETY: null, or a whole structure.
    if let (Some(timeout), Some(left)) = (unsafe { timeout.as_mut() }, until.left()) {
        let left = if came == 0 { 0 } else { left };
        *timeout = times::timeval(left);
    }
    came
}

/// C's `pselect`.
///
/// # Safety
///
/// C's contract.
pub unsafe fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    error: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let Some(real) = REAL.pselect() else { return missing() };
    // SAFETY: null, or a whole structure.
    let total = unsafe { timeout.as_ref() }.map(nanos_of);
    let may_split = total != Some(None) && (0..=MOST_FILES).contains(&count);
    let Some(first) = first_of(total.flatten()).filter(|_| may_split) else {
        // SAFETY: the caller's promise.
        return unsafe { real(count, read, write, error, timeout, mask) };
    };
    let (sets, until) = (Sets::new(count, [read, write, error]), Until::after(total.flatten()));
    let contents = sets.copy();
    // SAFETY: the caller's promise.
    let came = unsafe { real(count, read, write, error, &times::timespec(first), mask) };
    if came != 0 {
        return came;
    }
    sets.put(contents);
    let Some(before) = between() else {
        // SAFETY: the caller's promise; whole structures.
        return unsafe { real(count, read, write, error, rest(until).as_ptr(), mask) };
    };
    // SAFETY: the caller's promise; whole structures.
    let came = unsafe { real(count, read, write, error, rest(until).as_ptr(), &second_mask(mask, before)) };
    before.restore();
    came
}

/// C's `accept`. It is not split: the kernel restarts `accept` after some handlers, but would not restart our wait for the descriptor.
///
/// # Safety
///
/// C's contract.
pub unsafe fn accept(file: c_int, address: *mut libc::sockaddr, length: *mut libc::socklen_t) -> c_int {
    let Some(real) = REAL.accept() else { return missing() };
    before(None);
    // SAFETY: the caller's promise.
    unsafe { real(file, address, length) }
}

/// C's `accept4`; see [`accept`].
///
/// # Safety
///
/// C's contract.
pub unsafe fn accept4(file: c_int, address: *mut libc::sockaddr, length: *mut libc::socklen_t, flags: c_int) -> c_int {
    let Some(real) = REAL.accept4() else { return missing() };
    before(None);
    // SAFETY: the caller's promise.
    unsafe { real(file, address, length, flags) }
}

/// A wait without a descriptor, until a time or a signal; see [`super::sleeps`].
pub(super) fn sleep(nanos: times::Nanos, before: Mask) -> Option<c_int> {
    // SAFETY: no descriptors; whole structures.
    REAL.ppoll().map(|real| unsafe { real(null_mut(), 0, &timespec(nanos), &before.set()) })
}
