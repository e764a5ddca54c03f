//! The calling thread's own stack. In: an address on the present stack. Out: the end of this stack, if it is the
//! thread's own; `None` if it may be another one, such as a coroutine's.
//!
//! This code must work in a signal handler. So it does not use `pthread_getattr_np`, which allocates. It makes no system call, because
//! a sandbox may forbid it.

use std::ffi::c_void;

/// glibc's structure of a thread has three adjacent words about the stack, in this order. Their offset differs between versions.
const STACK_WORDS: usize = 3;

/// The part of the structure that is searched. The whole structure has 2368 bytes in glibc 2.36 on x86-64, and 1856 on
/// aarch64. On x86-64 the words are at offset 1680.
const SEARCHED: usize = 1792;

/// The largest distance from a thread's structure to the end of its stack: the structure itself and, on some
/// processors, the thread's static variables.
const MOST_BEHIND: usize = 1 << 20;

/// The largest word that is accepted as the size of a stack. Addresses are larger.
const LONGEST: usize = 1 << 40;

/// An address on the first thread's stack is accepted up to this depth. The kernel keeps at least 128 MiB below the end
/// of this stack free of other mappings.
const DEEPEST: usize = 8 << 20;

/// The address at which this thread's own stack ends, if `here` is on it.
pub(super) fn end_above(here: usize) -> Option<usize> {
    end_of_thread(here).or_else(|| end_of_first(here))
}

/// For a thread that the C library has made. Its structure is at the end of its stack.
fn end_of_thread(here: usize) -> Option<usize> {
    // SAFETY: the function takes no argument.
    let this = unsafe { libc::pthread_self() } as usize;
    let words: [usize; SEARCHED / size_of::<usize>()] = std::array::from_fn(|at| {
        let place = std::ptr::with_exposed_provenance::<usize>(this + at * size_of::<usize>());
        // SAFETY: within the calling thread's structure, which lives as long as the thread. A volatile read, because other
        // threads write to some of its words.
        unsafe { place.read_volatile() }
    });
    has_stack(&words, this, here).then_some(this)
}

/// Whether the structure at `this` has the bounds of a stack that contains `here`.
fn has_stack(words: &[usize], this: usize, here: usize) -> bool {
    words.windows(STACK_WORDS).any(|words| {
        let &[start, size, guard] = words else { return false };
        let Some(end) = start.checked_add(size) else { return false };
        start != 0
            && size <= LONGEST
            && guard < size
            && (start + guard..this).contains(&here)
            && this < end
            && end - this <= MOST_BEHIND
    })
}

/// For the first thread, whose stack the kernel has made.
fn end_of_first(here: usize) -> Option<usize> {
    unsafe extern "C" {
        static __libc_stack_end: *const c_void;
    }
    // SAFETY: the loader sets it before any code runs.
    let end = unsafe { __libc_stack_end }.addr();
    (here < end && end - here <= DEEPEST).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> usize {
        let word = 0_usize;
        std::hint::black_box(&raw const word).expose_provenance()
    }

    #[test]
    fn a_threads_own_stack_is_found_and_another_place_is_not_on_it() {
        // A test runs in its own thread.
        let end = end_above(here()).unwrap();
        assert!(here() < end && end - here() < 8 << 20);
        let block = vec![0_u8; 64 << 10];
        assert_eq!(end_of_thread(block.as_ptr().expose_provenance()), None);
        assert_eq!(end_above(end), None, "the description is not the stack");
        assert_eq!(end_of_first(here()), None, "it is not the first thread's");
    }

    #[test]
    fn bounds_that_do_not_enclose_the_place_and_the_description_are_none() {
        let (start, size, guard, this) = (0x10_0000, 0x4_0000, 0x1000, 0x13_f000);
        let found = |here| has_stack(&[7, start, size, guard, 9], this, here);
        assert!(found(0x10_1000) && found(0x13_efff));
        assert!(!found(0x10_0fff), "the guard");
        assert!(!found(this) && !found(0x14_0000), "behind");
        assert!(!has_stack(&[start, size, size], this, 0x13_0000), "a guard as long as the stack");
        assert!(!has_stack(&[0, this + 0x1000, 0], this, 0x13_0000), "the first thread has no block");
        assert!(!has_stack(&[start, usize::MAX, guard], this, 0x13_0000), "no overflow");
        let this = 0x7f00_0000_0000;
        assert!(!has_stack(&[0x1000, this, 1], this, this - 64), "two addresses and a number are no stack");
        assert!(!has_stack(&[start, this + MOST_BEHIND + 1 - start, guard], this, 0x13_0000), "too far behind");
    }
}
