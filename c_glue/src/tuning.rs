//! Live tuning, for C. In: numbers and switches. Out: codes. `allocanary::tuning` does the work.

use std::ffi::c_char;
use std::fmt::Write;
use std::time::Duration;

use allocanary::tuning::{self, Pages};

use crate::border::{AllocanaryCode, Text, buffer, guard, null, problem, tuned};

/// The two states of freed pages.
#[repr(C)]
pub enum AllocanaryPages {
    /// Freed by the program, still backed by memory.
    Dirty = 0,
    /// Given back lazily (MADV_FREE): the kernel takes them when it needs memory. jemalloc only.
    Muzzy = 1,
}

/// Checks that all settings, those of the library and those in the environment, exist, have a valid value and are in
/// force. If not, the code is `ALLOCANARY_CODE_SETTINGS`, and `text` (null, or `size` bytes) gets one line for each
/// setting that fails, cut if the lines do not fit. With glibc this starts the loader once. Call it at the start of a
/// program.
///
/// # Safety
///
/// `text` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_check(text: *mut c_char, size: usize) -> AllocanaryCode {
    guard(|| {
        // SAFETY: the caller promises it.
        let Some(buffer) = (unsafe { buffer(text, if text.is_null() { 0 } else { size }) }) else {
            return null("text");
        };
        let checked = tuning::check();
        if let Err(error) = &checked {
            let _ = write!(Text::new(buffer), "{error}");
        }
        tuned(checked)
    })
}

/// Writes to `most` the maximum number of arenas that threads are spread over; 0 if the allocator sets no limit.
///
/// # Safety
///
/// `most` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_most_arenas(most: *mut u32) -> AllocanaryCode {
    guard(|| {
        if most.is_null() {
            return null("most");
        }
        let found = tuning::most_arenas();
        if let Ok(found) = &found {
            // SAFETY: not null, and the caller promises it.
            unsafe { most.write(found.unwrap_or(0)) };
        }
        tuned(found.map(|_| ()))
    })
}

/// Binds the calling thread to an arena. Arenas are numbered from 0; `allocanary_most_arenas` is their number. jemalloc
/// only.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_bind_thread(arena: u32) -> AllocanaryCode {
    guard(|| tuned(tuning::bind_current_thread(arena)))
}

/// Turns the calling thread's cache on or off. The previous value goes to `was`, which may be null. jemalloc only.
///
/// # Safety
///
/// `was` is null or points to a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_set_thread_cache(on: bool, was: *mut bool) -> AllocanaryCode {
    guard(|| {
        // SAFETY: the caller promises it.
        tuned(tuning::set_thread_cache(on).map(|before| unsafe { hand_out(was, before) }))
    })
}

/// Sets the size in bytes of the largest block that the calling thread's cache keeps, rounded up to a size class.
/// jemalloc only.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_set_thread_cache_max(bytes: usize) -> AllocanaryCode {
    guard(|| tuned(tuning::set_thread_cache_max(bytes)))
}

/// Returns the blocks in the calling thread's cache to their arenas. jemalloc only.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_flush_thread_cache() -> AllocanaryCode {
    guard(|| tuned(tuning::flush_thread_cache()))
}

/// Sets the decay time, after which freed pages (an `AllocanaryPages`) go back to the system, in milliseconds: 0 means
/// at once, -1 never. It applies to existing arenas and to later ones. jemalloc, and mimalloc's dirty pages.
///
/// An idle process keeps its freed pages, whatever the time: see `allocanary_set_background_threads` and
/// `allocanary_purge`.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_set_decay(pages: i32, milliseconds: i64) -> AllocanaryCode {
    guard(|| {
        let pages = match named(pages) {
            Ok(pages) => pages,
            Err(code) => return code,
        };
        let after = match u64::try_from(milliseconds) {
            Ok(milliseconds) => Some(Duration::from_millis(milliseconds)),
            Err(_) if milliseconds == -1 => None,
            Err(_) => {
                let words = format_args!("milliseconds: wanted -1 or more, found {milliseconds}");
                return problem((AllocanaryCode::Argument, words));
            }
        };
        tuned(tuning::set_decay(pages, after))
    })
}

/// Writes to `milliseconds` the decay time that `allocanary_set_decay` sets.
///
/// # Safety
///
/// `milliseconds` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_decay(pages: i32, milliseconds: *mut i64) -> AllocanaryCode {
    guard(|| {
        if milliseconds.is_null() {
            return null("milliseconds");
        }
        let pages = match named(pages) {
            Ok(pages) => pages,
            Err(code) => return code,
        };
        let found = tuning::decay(pages).map(|after| {
            let found = after.map_or(-1, |after| i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
            // SAFETY: not null, and the caller promises it.
            unsafe { milliseconds.write(found) };
        });
        tuned(found)
    })
}

/// Turns jemalloc's background threads on or off. While they are on, freed pages are purged on time even if the process
/// is idle. The previous value goes to `was`, which may be null. jemalloc only.
///
/// # Safety
///
/// `was` is null or points to a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_set_background_threads(on: bool, was: *mut bool) -> AllocanaryCode {
    guard(|| {
        // SAFETY: the caller promises it.
        tuned(tuning::set_background_threads(on).map(|before| unsafe { hand_out(was, before) }))
    })
}

/// Tells the allocator that the calling thread is about to wait: the memory that the thread keeps goes back to the system. If `gave_back`
/// is not null, it is set to whether this call gave memory back. Call it before each wait. It does nothing unless 100 ms have passed since
/// this thread last gave memory back (`ALLOCANARY_GIVE_BACK_EVERY_MS`; `ALLOCANARY_THREADS_GIVE_BACK=false` turns it off). Do not call it
/// in signal handlers.
///
/// # Safety
///
/// `gave_back` is null or points to a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_thread_idle(gave_back: *mut bool) -> AllocanaryCode {
    guard(|| {
        // SAFETY: the caller promises it.
        tuned(tuning::thread_idle().map(|gave| unsafe { hand_out(gave_back, gave) }))
    })
}

/// Returns to the system now all memory that the calling thread can return. The caches of other threads stay, and with
/// glibc also the tops of their arenas: for these there is `allocanary_thread_idle`.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_purge() -> AllocanaryCode {
    guard(|| tuned(tuning::purge()))
}

/// C may pass any number for an enum, but a Rust enum must not have an unknown value. So the argument is a number.
fn named(pages: i32) -> Result<Pages, AllocanaryCode> {
    const DIRTY: i32 = AllocanaryPages::Dirty as i32;
    const MUZZY: i32 = AllocanaryPages::Muzzy as i32;
    match pages {
        DIRTY => Ok(Pages::Dirty),
        MUZZY => Ok(Pages::Muzzy),
        _ => Err(problem((AllocanaryCode::Argument, format_args!("pages: wanted 0 or 1, found {pages}")))),
    }
}

/// Writes the value, unless the caller passed null.
///
/// # Safety
///
/// `to` is null or can be written to.
unsafe fn hand_out(to: *mut bool, value: bool) {
    if !to.is_null() {
        // SAFETY: the caller promises it.
        unsafe { to.write(value) };
    }
}
