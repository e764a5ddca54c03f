//! Counted memory for C. In: sizes and pointers. Out: blocks from this library's allocator.
//!
//! A small head in front of each block keeps its size, because Rust's allocators need the size when the block is freed.
//! So a block must be freed by `allocanary_free`, never by C's `free`. A block of C's `malloc` must never be freed by
//! `allocanary_free`.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::border::{AllocanaryCode, guard, problem};

/// The size of a block's head. It equals the alignment, so that the block is aligned as C's own blocks are.
const HEAD: usize = 16;

/// Bytes in blocks that C holds, in the requested sizes.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Memory for `count` elements of `size` bytes, all zero, aligned for any type of C; null if it cannot be allocated
/// (see `allocanary_last_error`). Free it by `allocanary_free`, not by `free`. A size of 0 gives a block, too.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_calloc(count: usize, size: usize) -> *mut c_void {
    let mut block = null_mut();
    guard(|| {
        let bytes = count.checked_mul(size);
        let whole = bytes.and_then(|bytes| bytes.checked_add(HEAD));
        let Some((bytes, layout)) = bytes.zip(whole.and_then(|whole| Layout::from_size_align(whole, HEAD).ok())) else {
            let words = format_args!("{count} things of {size} bytes are more than there are addresses");
            return problem((AllocanaryCode::Argument, words));
        };
        // SAFETY: the layout is at least as large as the head.
        let head = unsafe { alloc_zeroed(layout) };
        if head.is_null() {
            return problem((AllocanaryCode::Refused, format_args!("no memory for {bytes} bytes")));
        }
        // SAFETY: the head is within the block and aligned, and so is the memory after it.
        block = unsafe {
            head.cast::<usize>().write(bytes);
            head.add(HEAD).cast::<c_void>()
        };
        IN_USE.fetch_add(bytes, Ordering::Relaxed);
        checked::given(block);
        AllocanaryCode::Ok
    });
    block
}

/// Frees a block of `allocanary_calloc`. Does nothing for null. A checked build refuses a block that was freed before
/// and a pointer that is not a block. In any other build both are undefined, as they are for `free`.
///
/// # Safety
///
/// `block` is null or from `allocanary_calloc`, and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_free(block: *mut c_void) -> AllocanaryCode {
    if block.is_null() {
        return AllocanaryCode::Ok;
    }
    guard(|| {
        if let Err(found) = checked::taken_back(block) {
            return found;
        }
        // SAFETY: the caller promises that this is a block of ours. Its head is in front of it.
        let (head, bytes) = unsafe {
            let head = block.cast::<u8>().sub(HEAD);
            (head, head.cast::<usize>().read())
        };
        // SAFETY: the same layout as in `allocanary_calloc`, which has checked it.
        unsafe { dealloc(head, Layout::from_size_align_unchecked(bytes + HEAD, HEAD)) };
        IN_USE.fetch_sub(bytes, Ordering::Relaxed);
        AllocanaryCode::Ok
    })
}

/// Bytes in blocks of `allocanary_calloc` that are not freed yet, in the requested sizes.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_requested_bytes() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// The list of blocks of a checked build. It is for tests: it keeps the address of every block that ever was, and a
/// child that is forked while another thread uses it would wait for ever.
#[cfg(any(debug_assertions, feature = "checked"))]
mod checked {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// The address of each block, and whether the block is live.
    static BLOCKS: Mutex<BTreeMap<usize, bool>> = Mutex::new(BTreeMap::new());

    fn blocks() -> MutexGuard<'static, BTreeMap<usize, bool>> {
        BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn given(block: *mut c_void) {
        blocks().insert(block as usize, true);
    }

    pub fn taken_back(block: *mut c_void) -> Result<(), AllocanaryCode> {
        match blocks().get_mut(&(block as usize)) {
            Some(live) if *live => {
                *live = false;
                Ok(())
            }
            Some(_) => Err(problem((AllocanaryCode::FreedTwice, format_args!("{block:p} was freed before")))),
            None => {
                Err(problem((AllocanaryCode::Foreign, format_args!("{block:p} is not a block of allocanary_calloc"))))
            }
        }
    }
}

#[cfg(not(any(debug_assertions, feature = "checked")))]
mod checked {
    use super::*;

    #[inline]
    pub fn given(_block: *mut c_void) {}

    #[inline]
    pub fn taken_back(_block: *mut c_void) -> Result<(), AllocanaryCode> {
        Ok(())
    }
}
