//! The setting `profile`: the sampler between the program and its allocator. In: blocks. Out: the same blocks, and samples in the
//! table.

use std::ffi::{c_int, c_void};

use allocanary_profile::weight;
use allocanary_sampler as sampler;

pub use allocanary_sampler::SamplerPlace;

use crate::complain::complain;
use crate::{sandbox, settings};

/// Turns the sampler on, in the constructor. Returns whether there was memory for the table.
pub fn turn_on(mean: u64) -> bool {
    sampler::turn_on(mean, SamplerPlace::Library)
}

/// Whether a block may be sampled.
#[inline(always)]
pub fn may_be_sampled(block: *mut c_void) -> bool {
    sampler::may_be_sampled(block.cast())
}

/// The allocator has made a block, which is recorded if it is sampled. Returns the block.
pub fn made(is_sampled: bool, block: *mut c_void, size: usize) -> *mut c_void {
    if is_sampled {
        // A stack walk may make system calls. A filter may kill the process for them.
        if sandbox::is_entered() { sampler::filtered() } else { sampler::allocated(block.cast(), size) }
    }
    block
}

/// A block is about to be freed.
pub fn freed(block: *mut c_void) {
    sampler::freed(block.cast());
}

/// Resizes a block by the allocator's `realloc`. The profile records that the old block is freed and that a new one is made.
///
/// # Safety
///
/// C's contract of `realloc`.
pub unsafe fn resize(
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    block: *mut c_void,
    size: usize,
    is_sampled: bool,
) -> *mut c_void {
    // The old block leaves the table before `realloc`: as soon as it is free, another thread may get its address.
    let leaving = if may_be_sampled(block) { sampler::take(block.cast()) } else { None };
    // SAFETY: the caller's promise.
    let new = unsafe { realloc(block, size) };
    match leaving {
        Some(leaving) if new.is_null() && size > 0 => leaving.stays(),
        Some(leaving) => leaving.freed(),
        None => {}
    }
    made(is_sampled, new, size)
}

/// C's `dlclose`.
///
/// # Safety
///
/// C's contract.
pub unsafe fn dlclose(library: *mut c_void) -> c_int {
    use crate::real::Real;
    static REAL: Real = Real::new(c"dlclose");
    type Function = unsafe extern "C" fn(*mut c_void) -> c_int;
    // SAFETY: the next library's function has that type, and the caller promises the rest.
    let closed = unsafe { REAL.function().map_or(-1, |real: Function| real(library)) };
    sampler::library_closed();
    closed
}

/// Turns the sampler on in a preload that has no other setting, unless the variable says `profile=off`.
pub fn start(text: Option<&'static [u8]>) {
    let text = text.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
    match settings::profile_of(text) {
        Ok(mean) => {
            if let Some(mean) = mean.unwrap_or(Some(weight::MEAN))
                && !turn_on(mean)
            {
                complain(settings::VARIABLE, b"profile", "there is no memory for its table");
            }
        }
        Err(problem) => complain(settings::VARIABLE, problem.part.as_bytes(), problem.wanted),
    }
}

/// The functions of the next library, for `profile!`. The recorder uses the same functions.
pub use allocanary_recorder::real;

/// C's `memalign`, made of `posix_memalign`, which every allocator has.
///
/// # Safety
///
/// C's contract.
pub unsafe fn next_memalign(alignment: usize, size: usize) -> *mut c_void {
    let mut block = std::ptr::null_mut();
    // SAFETY: the caller's promise; the alignment is at least a pointer's size.
    match unsafe { real::posix_memalign(&mut block, alignment, size) } {
        0 => block,
        error => {
            crate::raw::set_errno(error);
            std::ptr::null_mut()
        }
    }
}

/// C's `realloc`. It also takes a block that was made while the next library's functions were looked up.
///
/// # Safety
///
/// C's contract.
pub unsafe fn next_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if !real::is_early(block) {
        // SAFETY: the caller's promise.
        return unsafe { real::realloc(block, size) };
    }
    // SAFETY: as above; the new block has that size.
    unsafe {
        let new = real::malloc(size);
        if !new.is_null() {
            real::copy_early(block, new, size);
        }
        new
    }
}

/// Makes the preload that samples and does not replace the program's allocator: `profile!()`. Use it once, at the root of a binary.
#[macro_export]
macro_rules! profile {
    () => {
        #[allow(clippy::missing_safety_doc, missing_docs)]
        mod __profile {
            use ::core::ffi::{c_char, c_int, c_void};

            $crate::started_by_hand!($crate::by_hand::say_parts(&[
                "preload-profile: a library of allocanary that samples a program's allocations, for programs that are dynamically linked\n\
                 with glibc:\n\n    LD_PRELOAD=/path/to/preload-profile PROGRAM\n    allocanary who PID\n\n\
                 ALLOCANARY_PRELOAD=profile=1MiB changes the mean distance of samples, which is 512KiB.\n",
            ]));
            $crate::opened_libraries!();
            $crate::closed_libraries!();
            $crate::sandboxes!();

            mod own {
                use ::core::ffi::c_void;

                /// The next library's functions. Each keeps C's contract, which is passed on as it is.
                mod real {
                    use super::c_void;
                    use $crate::profiled::real;

                    pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
                        // SAFETY: as above.
                        unsafe { real::malloc(size) }
                    }
                    pub unsafe extern "C" fn calloc(number: usize, size: usize) -> *mut c_void {
                        // SAFETY: as above.
                        unsafe { real::calloc(number, size) }
                    }
                    pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
                        // SAFETY: as above.
                        unsafe { $crate::profiled::next_realloc(block, size) }
                    }
                    pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
                        // SAFETY: as above.
                        unsafe { $crate::profiled::next_memalign(alignment, size) }
                    }
                    pub unsafe extern "C" fn free(block: *mut c_void) {
                        if !real::is_early(block) {
                            // SAFETY: as above.
                            unsafe { real::free(block) }
                        }
                    }
                }
                /// Only a budget needs these functions, and this preload has none.
                unsafe fn usable_size(_: *mut c_void) -> usize {
                    0
                }
                unsafe fn announce(_: *mut c_void, _: usize) {}
                $crate::__profiled_functions!();
                pub use {
                    profiled_calloc as calloc, profiled_free as free, profiled_malloc as malloc,
                    profiled_memalign as memalign, profiled_realloc as realloc,
                };
            }
            $crate::__family!(malloc, calloc, realloc, free, memalign, valloc, pvalloc);
            $crate::__others!();

            extern "C" fn start(_count: c_int, _words: *const *const c_char, _variables: *mut *mut c_char) {
                $crate::profiled::start($crate::profiled::variable());
            }
            #[used]
            #[unsafe(link_section = ".init_array")]
            static START: extern "C" fn(c_int, *const *const c_char, *mut *mut c_char) = start;
        }
    };
}

/// The variable's text.
pub fn variable() -> Option<&'static [u8]> {
    // SAFETY: the constructor reads it before the program can change its environment, and only the constructor uses it.
    unsafe { allocanary_sys::sys::variable(settings::VARIABLE) }
}

/// Exports dlclose. After a library is closed, the sampler forgets it.
#[macro_export]
macro_rules! closed_libraries {
    () => {
        $crate::__functions! {
            fn dlclose(library: *mut c_void) -> c_int = $crate::profiled::dlclose(library);
        }
    };
}
