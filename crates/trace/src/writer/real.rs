//! The functions that a recording preload stands in front of. In: the dynamic linker. Out: pointers to the next
//! allocator's functions.
//!
//! Looking them up may itself allocate: such blocks come from a small place here, and are never given back.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

/// The next allocator.
#[derive(Clone, Copy)]
pub struct Real {
    /// Its malloc.
    pub malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    /// Its calloc.
    pub calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    /// Its realloc.
    pub realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    /// Its free.
    pub free: unsafe extern "C" fn(*mut c_void),
    /// Its posix_memalign.
    pub posix_memalign: unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int,
    /// Its malloc_usable_size.
    pub malloc_usable_size: unsafe extern "C" fn(*mut c_void) -> usize,
}

struct Place<T>(UnsafeCell<T>);

// SAFETY: `FOUND` is written by the one thread that changes `STATE` from 0, and read after it is 2; `EARLY` is handed out
// by an atomic addition.
unsafe impl<T> Sync for Place<T> {}

/// What is called while the functions are looked up.
const EARLY_FUNCTIONS: Real = Real {
    malloc: early_malloc,
    calloc: early_calloc,
    realloc: early_realloc,
    free: early_free,
    posix_memalign: early_memalign,
    malloc_usable_size: early_usable,
};

static FOUND: Place<Real> = Place(UnsafeCell::new(EARLY_FUNCTIONS));
/// 0 not looked up, 1 being looked up, 2 found.
static STATE: AtomicU32 = AtomicU32::new(0);

/// Bytes for blocks that are allocated while the functions are looked up.
const EARLY_BYTES: usize = 64 << 10;

#[repr(align(64))]
struct Early(#[allow(dead_code, reason = "reached by address")] [u8; EARLY_BYTES]);

static EARLY: Place<Early> = Place(UnsafeCell::new(Early([0; EARLY_BYTES])));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

impl Real {
    /// The next allocator's functions.
    #[inline(always)]
    pub fn get() -> &'static Real {
        if STATE.load(Acquire) != 2 {
            look_up();
        }
        // SAFETY: complete, or the early functions.
        unsafe { &*FOUND.0.get() }
    }
}

#[cold]
fn look_up() {
    if STATE.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        return;
    }
    let find = |name: &CStr| {
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
    };
    // SAFETY: the C functions of these names have these types.
    let found = unsafe {
        use std::mem::transmute;
        Real {
            malloc: transmute::<*mut c_void, unsafe extern "C" fn(usize) -> *mut c_void>(find(c"malloc")),
            calloc: transmute::<*mut c_void, unsafe extern "C" fn(usize, usize) -> *mut c_void>(find(c"calloc")),
            realloc: transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>(find(
                c"realloc",
            )),
            free: transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(find(c"free")),
            posix_memalign: transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int>(
                find(c"posix_memalign"),
            ),
            malloc_usable_size: transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> usize>(find(
                c"malloc_usable_size",
            )),
        }
    };
    // SAFETY: this thread alone changed the state from 0.
    unsafe { *FOUND.0.get() = found };
    STATE.store(2, SeqCst);
}

/// Whether a block was made while the functions were looked up.
#[inline(always)]
pub fn is_early(block: *mut c_void) -> bool {
    block.addr().wrapping_sub(EARLY.0.get().addr()) < EARLY_BYTES
}

/// The size of such a block.
pub fn early_size(block: *mut c_void) -> usize {
    // SAFETY: each such block follows 16 bytes with its size.
    unsafe { block.cast::<usize>().sub(2).read() }
}

/// Copies such a block to a new one of `size` bytes.
///
/// # Safety
///
/// `new` has `size` bytes.
pub unsafe fn copy_early(block: *mut c_void, new: *mut c_void, size: usize) {
    // SAFETY: both have that many.
    unsafe { block.copy_to_nonoverlapping(new, early_size(block).min(size)) };
}

/// The size of a page.
pub fn page() -> usize {
    allocanary_kernel::sys::page_bytes() as usize
}

unsafe extern "C" fn early_malloc(size: usize) -> *mut c_void {
    let Some(wanted) = size.checked_add(16 + 15).map(|wanted| wanted & !15) else { return std::ptr::null_mut() };
    let start = EARLY_USED.fetch_add(wanted, Relaxed);
    if start.saturating_add(wanted) > EARLY_BYTES {
        return std::ptr::null_mut();
    }
    // SAFETY: the range is within the place and nobody else's.
    unsafe {
        let block = EARLY.0.get().cast::<u8>().add(start);
        block.cast::<usize>().write(size);
        block.add(16).cast()
    }
}

unsafe extern "C" fn early_calloc(count: usize, size: usize) -> *mut c_void {
    // The place is zero, and no part of it is used twice.
    // SAFETY: no promise is needed.
    count.checked_mul(size).map_or(std::ptr::null_mut(), |size| unsafe { early_malloc(size) })
}

unsafe extern "C" fn early_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: at this time every block is an early one.
    unsafe {
        let new = early_malloc(size);
        if !new.is_null() {
            copy_early(block, new, size);
        }
        new
    }
}

unsafe extern "C" fn early_free(_: *mut c_void) {}

unsafe extern "C" fn early_memalign(_: *mut *mut c_void, _: usize, _: usize) -> c_int {
    libc::ENOMEM
}

unsafe extern "C" fn early_usable(block: *mut c_void) -> usize {
    early_size(block)
}
