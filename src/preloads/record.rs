//! `preload-record`: the library that records another program's allocations, by `LD_PRELOAD`. It passes each call on to the program's
//! allocator: that of the C library, of another preload, or of a library that the program links.

#![cfg_attr(shared_object, no_main)]

#[cfg(not(shared_object))]
fn main() -> std::process::ExitCode {
    eprintln!("preload-record: not in this build: a preload needs glibc, dynamically linked, on x86-64 or aarch64");
    std::process::ExitCode::from(2)
}

#[cfg(shared_object)]
mod attached;

#[cfg(shared_object)]
mod functions {
    allocanary_preload::started_by_hand!(allocanary_preload::by_hand::say_parts(&[
        "preload-record: a library of allocanary that records a program's allocations, for programs that are dynamically linked\n\
         with glibc:\n\n    allocanary record -o FOLDER -- PROGRAM\n\nor, for a program that is started in another way:\n\n    \
         LD_PRELOAD=/path/to/preload-record ALLOCANARY_RECORD=/folder PROGRAM\n",
    ]));

    allocanary_preload::opened_libraries!();
    allocanary_preload::before_sandboxes!(allocanary_recorder::confined);

    use std::ffi::{c_int, c_void};
    use std::ptr::null_mut;

    use allocanary_recorder::{self as recorder, AllocFunction, real};

    /// Rounds an alignment up to a power of two that `posix_memalign` takes, as glibc does.
    fn alignment(wanted: usize) -> usize {
        wanted.max(size_of::<usize>()).checked_next_power_of_two().unwrap_or(0)
    }

    /// An aligned block, by `posix_memalign`, which every allocator has. With glibc's `pvalloc`, another allocator's `free` might get a
    /// block of glibc.
    fn aligned(align: usize, size: usize) -> Result<*mut c_void, c_int> {
        let mut block = null_mut();
        // SAFETY: the allocator's own function; it checks the alignment.
        let error = unsafe { real::posix_memalign(&mut block, align, size) };
        if error != 0 {
            return Err(error);
        }
        recorder::allocated_by(AllocFunction::Aligned(align.trailing_zeros() as u8), block.cast(), size);
        Ok(block)
    }

    /// Like [`aligned`], but a failure is null and `errno`.
    fn aligned_or_null(align: usize, size: usize) -> *mut c_void {
        if align > isize::MAX as usize + 1 {
            // SAFETY: this thread's error number; 22 is EINVAL on every Linux.
            unsafe { *libc_errno() = 22 };
            return null_mut();
        }
        aligned(alignment(align), size).unwrap_or_else(|error| {
            // SAFETY: this thread's error number.
            unsafe { *libc_errno() = error };
            null_mut()
        })
    }

    unsafe extern "C" {
        #[link_name = "__errno_location"]
        pub(crate) fn libc_errno() -> *mut c_int;
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
        // SAFETY: here and below, the caller keeps the contract of the function that is called.
        let block = unsafe { real::malloc(size) };
        recorder::allocated(block.cast(), size).cast()
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
        // SAFETY: as above. If there is a block, the product did not overflow.
        let block = unsafe { real::calloc(count, size) };
        recorder::allocated_by(AllocFunction::Calloc, block.cast(), count.wrapping_mul(size)).cast()
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn free(block: *mut c_void) {
        // SAFETY: as above.
        unsafe { real::free(recorder::freed(block.cast()).cast()) }
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: as above.
        unsafe {
            if block.is_null() {
                return malloc(size);
            }
            if real::is_early(block) {
                let new = malloc(size);
                if !new.is_null() {
                    real::copy_early(block, new, size);
                }
                return new;
            }
            let begun = recorder::resizing(block.cast());
            let new = real::realloc(block, size);
            recorder::resized(begun, new.cast(), size);
            new
        }
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
        match count.checked_mul(size) {
            // SAFETY: as above.
            Some(size) => unsafe { realloc(block, size) },
            None => {
                // SAFETY: this thread's error number; 12 is ENOMEM on every Linux.
                unsafe { *libc_errno() = 12 };
                null_mut()
            }
        }
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn cfree(block: *mut c_void) {
        // SAFETY: as above.
        unsafe { free(block) }
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn free_sized(block: *mut c_void, _size: usize) {
        // SAFETY: as above.
        unsafe { free(block) }
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _alignment: usize, _size: usize) {
        // SAFETY: as above.
        unsafe { free(block) }
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
        match aligned(align, size) {
            Ok(block) => {
                // SAFETY: as above.
                unsafe { *place = block };
                0
            }
            Err(error) => error,
        }
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
        aligned_or_null(align, size)
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
        aligned_or_null(align, size)
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
        aligned_or_null(real::page(), size)
    }

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
        aligned_or_null(real::page(), size.checked_next_multiple_of(real::page()).unwrap_or(usize::MAX))
    }

    /// The next library's dlclose, as its address; 0 before the first call.
    pub(crate) static DLCLOSE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

    /// # Safety
    /// C's contract.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn dlclose(library: *mut c_void) -> c_int {
        use std::sync::atomic::Ordering::Relaxed;
        let mut real = DLCLOSE.load(Relaxed);
        if real == 0 {
            real = real::find_next(c"dlclose").expose_provenance();
            DLCLOSE.store(real, Relaxed);
        }
        // SAFETY: the C library's own function of this type, and the caller's promise.
        let closed = unsafe {
            let real: unsafe extern "C" fn(*mut c_void) -> c_int =
                std::mem::transmute(std::ptr::with_exposed_provenance::<c_void>(real));
            real(library)
        };
        recorder::library_closed();
        closed
    }

    extern "C" fn at_start() {
        if crate::attached::is_opened() {
            return recorder::attached::opened();
        }
        recorder::watch_forks();
        recorder::look_up();
    }

    /// Runs before the program's `main`.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static AT_START: extern "C" fn() = at_start;

    extern "C" fn at_exit() {
        recorder::exiting();
    }

    /// Runs when the program exits.
    #[used]
    #[unsafe(link_section = ".fini_array")]
    static AT_EXIT: extern "C" fn() = at_exit;
}
