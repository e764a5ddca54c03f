//! Live tuning, for C. In: numbers and switches. Out: codes. The work is done by `allocanary::tuning`.

use std::ffi::c_char;
use std::fmt::Write;
use std::time::Duration;

use allocanary::tuning::{self, Pages};

use crate::border::{AllocanaryCode, Text, buffer, guard, null, problem, tuned};

/// Freed pages, by how far they have gone.
#[repr(C)]
pub enum AllocanaryPages {
    /// Freed by the program and still backed by memory.
    Dirty = 0,
    /// Given back lazily (MADV_FREE): the kernel takes them when it needs them. jemalloc only.
    Muzzy = 1,
}

/// Whether all settings, those of the library and those in the environment, exist, have a value that can be, and are in
/// force. If not the code is `ALLOCANARY_CODE_SETTINGS`, and `text` (null, or `size` bytes) gets a line for each that does
/// not, cut where they do not fit. With glibc this starts the loader once: for the start of a program.
///
/// # Safety
///
/// `text` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_check(text: *mut c_char, size: usize) -> AllocanaryCode {
    guard(|| {
        // SAFETY: as the caller promises.
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

/// The most arenas that threads are spread over, into `most`; 0 where the allocator sets no limit.
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
            // SAFETY: not null, and as the caller promises.
            unsafe { most.write(found.unwrap_or(0)) };
        }
        tuned(found.map(|_| ()))
    })
}

/// Binds the calling thread to an arena, from 0 up to `allocanary_most_arenas`. jemalloc only.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_bind_thread(arena: u32) -> AllocanaryCode {
    guard(|| tuned(tuning::bind_current_thread(arena)))
}

/// Turns the calling thread's cache on or off; what it was goes to `was`, which may be null. jemalloc only.
///
/// # Safety
///
/// `was` is null or points to a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_set_thread_cache(on: bool, was: *mut bool) -> AllocanaryCode {
    guard(|| {
        // SAFETY: as the caller promises.
        tuned(tuning::set_thread_cache(on).map(|before| unsafe { hand_out(was, before) }))
    })
}

/// Limits the blocks that the calling thread's cache holds to `bytes`, rounded up to a size class. jemalloc only.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_set_thread_cache_max(bytes: usize) -> AllocanaryCode {
    guard(|| tuned(tuning::set_thread_cache_max(bytes)))
}

/// Gives the blocks in the calling thread's cache back to their arenas. jemalloc only.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_flush_thread_cache() -> AllocanaryCode {
    guard(|| tuned(tuning::flush_thread_cache()))
}

/// Sets the time over which freed pages (an `AllocanaryPages`) go back to the system, in milliseconds: 0 is at once, -1
/// never. For arenas that live and for those to come. jemalloc, and mimalloc's dirty pages.
///
/// An idle process keeps what it has, whatever the time: see `allocanary_set_background_threads` and
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

/// The time that `allocanary_set_decay` sets, into `milliseconds`.
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
            // SAFETY: not null, and as the caller promises.
            unsafe { milliseconds.write(found) };
        });
        tuned(found)
    })
}

/// Turns threads on or off that purge on time even when the process is idle; what it was goes to `was`, which may be
/// null. jemalloc only.
///
/// # Safety
///
/// `was` is null or points to a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_set_background_threads(on: bool, was: *mut bool) -> AllocanaryCode {
    guard(|| {
        // SAFETY: as the caller promises.
        tuned(tuning::set_background_threads(on).map(|before| unsafe { hand_out(was, before) }))
    })
}

/// Tells the allocator that the calling thread is about to wait: what the thread keeps for itself goes back to the system.
/// Whether something was given back goes to `gave_back`, which may be null. To be called before each wait: it does nothing
/// unless 100 ms have passed since the thread's last time (`ALLOCANARY_THREAD_IDLE_EVERY_MS`; `ALLOCANARY_THREAD_IDLE=keep` turns it off). Not
/// for signal handlers.
///
/// # Safety
///
/// `gave_back` is null or points to a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_thread_idle(gave_back: *mut bool) -> AllocanaryCode {
    guard(|| {
        // SAFETY: as the caller promises.
        tuned(tuning::thread_idle().map(|gave| unsafe { hand_out(gave_back, gave) }))
    })
}

/// Gives back to the system, now, all memory that one thread can give back: not what other threads' caches hold, nor, with
/// glibc, the tops of their arenas. `allocanary_thread_idle` is for those.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_purge() -> AllocanaryCode {
    guard(|| tuned(tuning::purge()))
}

/// C may pass any number for an enum, and Rust may not take one that is none of its own: so it comes as a number.
fn named(pages: i32) -> Result<Pages, AllocanaryCode> {
    const DIRTY: i32 = AllocanaryPages::Dirty as i32;
    const MUZZY: i32 = AllocanaryPages::Muzzy as i32;
    match pages {
        DIRTY => Ok(Pages::Dirty),
        MUZZY => Ok(Pages::Muzzy),
        _ => Err(problem((AllocanaryCode::Argument, format_args!("pages: wanted 0 or 1, found {pages}")))),
    }
}

/// Writes where the caller wants it, if it does.
///
/// # Safety
///
/// `to` is null or can be written to.
unsafe fn hand_out(to: *mut bool, value: bool) {
    if !to.is_null() {
        // SAFETY: as the caller promises.
        unsafe { to.write(value) };
    }
}
