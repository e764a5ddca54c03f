//! The functions that a recording preload replaces. In: the dynamic linker. Out: calls of the next allocator's
//! functions.
//!
//! `malloc_usable_size` is not among them, because it changes no block: the preload leaves it to the next allocator.
//! That allocator does not know the few early blocks (see below). Only the dynamic linker's own code has these blocks.
//!
//! The look-up of these functions may itself allocate. Such early blocks come from a small static buffer here, and are
//! never reused.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

pub use super::memory::page;

/// Declares the functions: for each function a pointer, and a function that calls through it. At first the pointer is
/// to `first_...`, which looks up all functions.
macro_rules! real {
    ($($(#[$doc:meta])* $name:ident, $pointer:ident, $first:ident, $early:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            static $pointer: AtomicPtr<c_void> = AtomicPtr::new($first as *mut c_void);

            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// C's contract.
            #[inline(always)]
            pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: the pointer is to the C function of this name, or to the function `$first`.
                unsafe {
                    let function: unsafe extern "C" fn($($type),*) $(-> $result)? = std::mem::transmute($pointer.load(Relaxed));
                    function($($argument),*)
                }
            }

            /// Used for the first call, and for calls while the functions are looked up.
            unsafe extern "C" fn $first($($argument: $type),*) $(-> $result)? {
                // SAFETY: the caller's promises.
                unsafe { if look_up() { $name($($argument),*) } else { $early($($argument),*) } }
            }
        )*

        /// Looks up all functions before one is used, because one may call another. Functions that take blocks come
        /// before those that make blocks.
        fn find_all() {
            super::stacks::look_up();
            let found = [$((&$pointer, find(const { name(concat!(stringify!($name), "\0")) })),)*];
            for (pointer, function) in found {
                pointer.store(function, SeqCst);
            }
        }
    };
}

real! {
    /// The next allocator's free.
    free, FREE, first_free, early_free(block: *mut c_void);
    /// Its realloc.
    realloc, REALLOC, first_realloc, early_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    /// Its malloc.
    malloc, MALLOC, first_malloc, early_malloc(size: usize) -> *mut c_void;
    /// Its calloc.
    calloc, CALLOC, first_calloc, early_calloc(count: usize, size: usize) -> *mut c_void;
    /// Its posix_memalign.
    posix_memalign, POSIX_MEMALIGN, first_posix_memalign, early_posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int;
}

struct Place<T>(UnsafeCell<T>);

// SAFETY: the place is handed out by an atomic addition.
unsafe impl<T> Sync for Place<T> {}

/// Bytes for blocks that are allocated while the functions are looked up.
const EARLY_BYTES: usize = 64 << 10;

#[repr(align(64))]
struct Early(#[allow(dead_code, reason = "reached by address")] [u8; EARLY_BYTES]);

static EARLY: Place<Early> = Place(UnsafeCell::new(Early([0; EARLY_BYTES])));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

const fn name(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("wanted one NUL, at the end"),
    }
}

/// 0 not looked up, 1 being looked up, 2 found.
static STATE: AtomicU32 = AtomicU32::new(0);

/// Looks up all functions. Returns false while another call, in this thread or another one, does so.
#[cold]
pub(super) fn look_up() -> bool {
    if STATE.compare_exchange(0, 1, SeqCst, SeqCst).is_ok() {
        find_all();
        STATE.store(2, SeqCst);
    }
    STATE.load(SeqCst) == 2
}

/// Sets the functions for a running process: malloc, calloc, realloc, free and posix_memalign.
pub(super) fn set([malloc, calloc, realloc, free, posix_memalign]: [usize; 5]) {
    let all =
        [(&FREE, free), (&REALLOC, realloc), (&MALLOC, malloc), (&CALLOC, calloc), (&POSIX_MEMALIGN, posix_memalign)];
    for (pointer, function) in all {
        pointer.store(std::ptr::with_exposed_provenance_mut(function), SeqCst);
    }
    STATE.store(2, SeqCst);
}

/// The next library's function of this name. If there is none, the program ends with a line that says so.
pub fn find_next(name: &CStr) -> *mut c_void {
    find(name)
}

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        // SAFETY: without the function the program cannot run: end it with a line that says why.
        unsafe {
            let text = b"allocanary: preload-record: no allocator behind it has ";
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::write(2, name.as_ptr().cast(), name.count_bytes());
            libc::write(2, c"\n".as_ptr().cast(), 1);
            libc::_exit(127);
        }
    }
    found
}

/// Whether a block was made while the functions were looked up.
#[inline(always)]
pub fn is_early(block: *mut c_void) -> bool {
    block.addr().wrapping_sub(EARLY.0.get().addr()) < EARLY_BYTES
}

/// A block as the look-up makes it.
#[cfg(test)]
pub(super) fn early_block() -> *mut u8 {
    EARLY.0.get().cast::<u8>().wrapping_add(64)
}

/// Copies a block of the look-up to a new block of `size` bytes.
///
/// # Safety
///
/// `block` is a block of the look-up, and `new` has `size` bytes.
pub unsafe fn copy_early(block: *mut c_void, new: *mut c_void, size: usize) {
    // SAFETY: before each early block are 16 bytes that begin with its size; the caller promises that `new` has `size`
    // bytes.
    unsafe {
        let own = block.cast::<usize>().sub(2).read();
        block.copy_to_nonoverlapping(new, own.min(size));
    }
}

unsafe extern "C" fn early_malloc(size: usize) -> *mut c_void {
    let Some(wanted) = size.checked_add(16 + 15).map(|wanted| wanted & !15) else { return std::ptr::null_mut() };
    let start = EARLY_USED.fetch_add(wanted, Relaxed);
    if start.saturating_add(wanted) > EARLY_BYTES {
        return std::ptr::null_mut();
    }
    // SAFETY: the range is within the buffer, and no other block has it.
    unsafe {
        let block = EARLY.0.get().cast::<u8>().add(start);
        block.cast::<usize>().write(size);
        block.add(16).cast()
    }
}

unsafe extern "C" fn early_calloc(count: usize, size: usize) -> *mut c_void {
    // The buffer is all zeros, and no part of it is used twice.
    // SAFETY: no promise is needed.
    count.checked_mul(size).map_or(std::ptr::null_mut(), |size| unsafe { early_malloc(size) })
}

unsafe extern "C" fn early_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: at this time every block is an early block.
    unsafe {
        let new = early_malloc(size);
        if !new.is_null() {
            copy_early(block, new, size);
        }
        new
    }
}

unsafe extern "C" fn early_free(_: *mut c_void) {}

unsafe extern "C" fn early_posix_memalign(_: *mut *mut c_void, _: usize, _: usize) -> c_int {
    libc::ENOMEM
}
