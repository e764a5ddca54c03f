//! The number of arenas that glibc's malloc uses. In: the output of malloc_info. Out: their number.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use allocanary_sys::fork_lock::ForkLock;

/// A `FILE` that stores nothing and counts `<heap nr=`, which malloc_info prints once for each arena.
struct Sink(*mut libc::FILE);

// SAFETY: used under the lock of `SINK` only.
unsafe impl Send for Sink {}

/// The child of a fork makes a new stream, because another thread of the parent may have been writing to this one.
static SINK: ForkLock<Sink> = ForkLock::new(Sink(std::ptr::null_mut()));
/// The state of the sink: the number of marks seen, and the length of a partial mark. Only the holder of `SINK` touches
/// it.
static COUNTED: (AtomicU64, AtomicUsize) = (AtomicU64::new(0), AtomicUsize::new(0));

#[repr(C)]
struct CookieFunctions {
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize>,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: CookieFunctions) -> *mut libc::FILE;
    fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int;
}

/// The number of arenas in use. malloc_info is the only call that reports it. It needs a `FILE`, which is made at the
/// first call (the only one that allocates) and kept.
#[inline]
pub fn used() -> Option<u64> {
    SINK.with(|sink, strange| {
        if strange || sink.0.is_null() {
            let functions = CookieFunctions { read: None, write: Some(count), seek: None, close: None };
            // SAFETY: the functions need no cookie, and the mode is a string that ends in NUL.
            sink.0 = unsafe { fopencookie(std::ptr::null_mut(), c"w".as_ptr(), functions) };
            if sink.0.is_null() {
                return None;
            }
        }
        COUNTED.0.store(0, Ordering::Relaxed);
        COUNTED.1.store(0, Ordering::Relaxed);
        // SAFETY: the stream is open and under our lock.
        let failed = unsafe { malloc_info(0, sink.0) != 0 || libc::fflush(sink.0) != 0 };
        if failed { None } else { Some(COUNTED.0.load(Ordering::Relaxed)) }
    })
}

/// Counts the mark in a stream that arrives in pieces. The position within the mark is carried over from piece to
/// piece.
#[inline]
unsafe extern "C" fn count(_cookie: *mut c_void, bytes: *const c_char, length: usize) -> isize {
    const MARK: &[u8] = b"<heap nr=";
    // SAFETY: stdio passes `length` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
    let mut place = COUNTED.1.load(Ordering::Relaxed);
    for byte in bytes {
        // The mark's first byte occurs once in it, so a mismatch can only restart at that byte.
        place = if *byte == MARK[place] { place + 1 } else { usize::from(*byte == MARK[0]) };
        if place == MARK.len() {
            COUNTED.0.fetch_add(1, Ordering::Relaxed);
            place = 0;
        }
    }
    COUNTED.1.store(place, Ordering::Relaxed);
    length as isize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_that_allocates_gets_an_arena_up_to_the_cap() {
        let before = used().unwrap();
        let gate = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let held = vec![1_u8; 100_000];
                    gate.wait();
                    gate.wait();
                    drop(held);
                });
            }
            gate.wait();
            assert!(used().unwrap() > before.min(3));
            gate.wait();
        });
    }
}
