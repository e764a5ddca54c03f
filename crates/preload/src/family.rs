//! The functions of the malloc family that call other functions of the family. In: an allocator's memalign, realloc and free. Out: the same
//! results and errors as glibc's.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::raw;

/// The largest power of two of a `usize`.
const HALF: usize = isize::MAX as usize + 1;

/// C's `memalign`.
pub type Memalign = unsafe extern "C" fn(usize, usize) -> *mut c_void;

/// C's `memalign`. As in glibc, an alignment that is not a power of two is rounded up to the next one, and an alignment above half of the
/// address space is invalid.
///
/// # Safety
///
/// `memalign` takes any power of two from 16 up.
#[inline]
pub unsafe fn memalign(memalign: Memalign, alignment: usize, size: usize) -> *mut c_void {
    if alignment > HALF {
        raw::set_errno(libc::EINVAL);
        return null_mut();
    }
    match alignment.max(16).checked_next_power_of_two().filter(|_| size <= isize::MAX as usize) {
        // SAFETY: the caller's promise.
        Some(alignment) if alignment < isize::MAX as usize => match unsafe { memalign(alignment, size) } {
            block if block.is_null() => no_memory(),
            block => block,
        },
        _ => no_memory(),
    }
}

/// C's `posix_memalign`; `errno` does not change.
///
/// # Safety
///
/// The same as for [`memalign`]; a pointer can be written to `place`.
#[inline]
pub unsafe fn posix_memalign(with: Memalign, place: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let before = raw::errno();
    // SAFETY: the caller's promise.
    let block = unsafe { memalign(with, alignment, size) };
    // An allocator's own system calls may fail although the allocation succeeds.
    raw::set_errno(before);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(block) };
    0
}

/// C's `valloc`, and `pvalloc`, which rounds the size up to whole pages.
///
/// # Safety
///
/// The same as for [`memalign`].
#[inline]
pub unsafe fn valloc(with: Memalign, size: usize, whole_pages: bool) -> *mut c_void {
    let page = allocanary_sys::sys::page_bytes() as usize;
    let size = if whole_pages { size.checked_next_multiple_of(page) } else { Some(size) };
    match size {
        // SAFETY: the caller's promise.
        Some(size) => unsafe { memalign(with, page, size) },
        None => no_memory(),
    }
}

/// C's `reallocarray`.
///
/// # Safety
///
/// `block` is the allocator's own, or null.
#[inline]
pub unsafe fn reallocarray(
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's promise.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => no_memory(),
    }
}

/// C's `calloc`. mimalloc's `calloc` does not set `errno` if the product is too large; this function does.
///
/// # Safety
///
/// C's contract; `calloc` is the allocator's own.
#[inline]
pub unsafe fn calloc(
    calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's promise.
        Some(_) => unsafe { calloc(count, size) },
        None => no_memory(),
    }
}

/// The function that mimalloc calls after an error. If there is no memory, or if a size is too large, mimalloc itself
/// returns null and does not set `errno`.
pub extern "C" fn mimalloc_failed(error: c_int, _argument: *mut c_void) {
    if error == libc::ENOMEM || error == libc::EOVERFLOW {
        raw::set_errno(libc::ENOMEM);
    }
}

#[cold]
fn no_memory() -> *mut c_void {
    raw::set_errno(libc::ENOMEM);
    null_mut()
}

/// Whether glibc's `realloc` makes a block larger without a second block.
///
/// # Safety
///
/// `block` is from glibc's malloc, or null.
pub unsafe fn glibc_grows_in_place(block: *mut c_void) -> bool {
    /// A flag in the word before a block: the block is a mapping of its own, which `mremap` grows.
    const IS_MMAPPED: usize = 2;
    // SAFETY: glibc has the block's size and flags there.
    !block.is_null() && unsafe { *block.cast::<usize>().sub(1) } & IS_MMAPPED != 0
}

/// The answer for an allocator that always copies.
///
/// # Safety
///
/// None: the pointer is not used.
pub unsafe fn never_in_place(_block: *mut c_void) -> bool {
    false
}

/// glibc's own `malloc_usable_size`. It has no second name, and the next library with this name may be another
/// allocator of the program.
///
/// # Safety
///
/// `block` is from glibc's malloc, or null.
pub unsafe extern "C" fn glibc_usable_size(block: *mut c_void) -> usize {
    use std::sync::atomic::{AtomicPtr, Ordering};
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let mut found = FOUND.load(Ordering::Relaxed);
    // SAFETY: names that end in NUL; the symbol is a function of this type; the library stays.
    unsafe {
        if found.is_null() {
            let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            found = if library.is_null() { library } else { libc::dlsym(library, c"malloc_usable_size".as_ptr()) };
            if found.is_null() {
                return 0;
            }
            FOUND.store(found, Ordering::Relaxed);
        }
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> usize>(found)(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_without_a_word_gets_enomem_and_what_does_not_keeps_errno() {
        unsafe extern "C" fn none(_: usize, _: usize) -> *mut c_void {
            null_mut()
        }
        unsafe extern "C" fn noisy(_: usize, _: usize) -> *mut c_void {
            raw::set_errno(libc::EINVAL);
            std::ptr::without_provenance_mut(4096)
        }
        let mut place = null_mut();
        // SAFETY: the functions above take any numbers.
        unsafe {
            for call in [|| memalign(none, 64, 8), || valloc(none, 8, true), || calloc(noisy, usize::MAX, 2)] {
                raw::set_errno(0);
                assert!(call().is_null() && raw::errno() == libc::ENOMEM);
            }
            raw::set_errno(7);
            assert_eq!((posix_memalign(noisy, &mut place, 64, 8), raw::errno()), (0, 7));
            assert_eq!((posix_memalign(none, &mut place, 64, 8), raw::errno()), (libc::ENOMEM, 7));
        }
        for (error, errno) in [(libc::ENOMEM, libc::ENOMEM), (libc::EOVERFLOW, libc::ENOMEM), (libc::EFAULT, 7)] {
            raw::set_errno(7);
            mimalloc_failed(error, null_mut());
            assert_eq!(raw::errno(), errno);
        }
    }

    #[test]
    fn an_alignment_above_the_half_of_all_addresses_is_invalid_as_for_glibc() {
        let glibc: Memalign = std::hint::black_box(libc::memalign);
        for (alignment, errno) in [(HALF + 1, libc::EINVAL), (usize::MAX, libc::EINVAL), (HALF, libc::ENOMEM)] {
            // SAFETY: they take any number.
            let found = [glibc, own].map(|memalign| unsafe {
                raw::set_errno(0);
                assert!(memalign(alignment, 8).is_null());
                raw::errno()
            });
            assert_eq!(found, [errno; 2], "{alignment:x}");
        }
        unsafe extern "C" fn own(alignment: usize, size: usize) -> *mut c_void {
            // SAFETY: glibc's memalign takes any number.
            unsafe { super::memalign(libc::memalign, alignment, size) }
        }
    }

    #[test]
    fn alignments_and_sizes_are_checked_as_glibc_does() {
        // Hides the function from the compiler, which knows C's allocation functions and removes unused calls of them.
        let glibc: Memalign = std::hint::black_box(libc::memalign);
        // SAFETY: glibc's own memalign and realloc.
        unsafe {
            let mut place = null_mut();
            for wrong in [0, 1, 4, 12, 24, usize::MAX] {
                assert_eq!(posix_memalign(glibc, &mut place, wrong, 8), libc::EINVAL, "{wrong}");
            }
            raw::set_errno(7);
            assert_eq!(posix_memalign(glibc, &mut place, 64, isize::MAX as usize), libc::ENOMEM);
            assert_eq!(raw::errno(), 7);
            assert_eq!(posix_memalign(glibc, &mut place, 4096, 8), 0);
            assert_eq!(place.addr() % 4096, 0);
            assert!(glibc_usable_size(place) >= 8 && glibc_usable_size(null_mut()) == 0);
            assert!(!glibc_grows_in_place(place) && !glibc_grows_in_place(null_mut()));
            let mapped = std::hint::black_box(libc::malloc(64 << 20));
            assert!(glibc_grows_in_place(mapped) && !never_in_place(mapped));
            libc::free(mapped);
            libc::free(place);
            let odd = memalign(glibc, 48, 8);
            assert_eq!(odd.addr() % 64, 0, "rounded up");
            libc::free(odd);
            let pages = valloc(glibc, 1, true);
            assert!(pages.addr().is_multiple_of(4096) && glibc_usable_size(pages) >= 4096);
            libc::free(pages);
            assert!(valloc(glibc, usize::MAX, true).is_null());
            assert!(reallocarray(libc::realloc, null_mut(), usize::MAX, 2).is_null());
            assert_eq!(raw::errno(), libc::ENOMEM);
            assert!(memalign(glibc, usize::MAX, 8).is_null());
        }
    }
}
