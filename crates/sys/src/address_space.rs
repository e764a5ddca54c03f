//! Gives the address space of this process a number. A forked child has another number. A child that shares memory has the same one.
//!
//! A process id is not enough: a child of `vfork`, or of `clone` with `CLONE_VM`, has another process id, but works on its parent's memory.
//! The number is on a page that the kernel wipes in a fork's child (`MADV_WIPEONFORK`, Linux 4.14). A child that finds zero there takes the
//! next number. Before Linux 4.14 the number is the process id.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::sys::{map_zeroed, unmap};

const PAGE: usize = 4096;

/// The word on the page; null before the first call of [`number`]. The page stays for the life of the process.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// The last number that was given. A child has a copy, so its number is one that none of its parents had.
static LAST: AtomicU32 = AtomicU32::new(0);
/// Stands for a missing page: then process IDs are the numbers, for the life of the process.
static NO_WORD: AtomicU32 = AtomicU32::new(0);

/// The number of this address space, never 0. Allocates nothing, takes no lock, and leaves `errno` as it is.
#[inline]
pub fn number() -> u32 {
    let mut word = WORD.load(Ordering::Acquire);
    if word.is_null() {
        word = first_word();
    }
    if word == no_word() {
        return std::process::id();
    }
    // SAFETY: the page is never unmapped, and zeros are a valid word.
    let word = unsafe { &*word };
    match word.load(Ordering::Acquire) {
        0 => first_number(word),
        number => number,
    }
}

fn no_word() -> *mut AtomicU32 {
    (&raw const NO_WORD).cast_mut()
}

/// The word that all threads use: the one that was made first, even if that is [`NO_WORD`].
#[cold]
fn first_word() -> *mut AtomicU32 {
    let made = wiped_page();
    let word = made.unwrap_or(no_word());
    match WORD.compare_exchange(null_mut(), word, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => word,
        Err(first) => {
            if let Some(made) = made.and_then(|made| std::ptr::NonNull::new(made.cast())) {
                // SAFETY: a page of this process whose address no other code knows.
                unsafe { unmap(made, PAGE) };
            }
            first
        }
    }
}

/// A page that a fork wipes.
fn wiped_page() -> Option<*mut AtomicU32> {
    if cfg!(miri) {
        return None; // it has no such pages, and no forks
    }
    // SAFETY: the C library's place for this thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let page = map_zeroed(PAGE).and_then(|page| {
        // SAFETY: our own mapping.
        let wiped = unsafe { libc::madvise(page.as_ptr().cast(), PAGE, libc::MADV_WIPEONFORK) };
        if wiped == 0 {
            return Some(page.as_ptr().cast());
        }
        // SAFETY: a page of this process whose address no other code knows.
        unsafe { unmap(page, PAGE) };
        None
    });
    // SAFETY: as above.
    unsafe { *errno = before };
    page
}

#[cold]
fn first_number(word: &AtomicU32) -> u32 {
    let next = LAST.fetch_add(1, Ordering::AcqRel).wrapping_add(1).max(1);
    match word.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => next,
        Err(first) => first, // another thread was first
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use allocanary_testing::vforked::in_vforked_child;

    use super::*;

    /// What a forked child finds.
    fn in_forked_child(find: impl Fn() -> u32) -> u32 {
        let mut ends = [0; 2];
        // SAFETY: the child uses nothing but its own copies, and ends at once.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let child = libc::fork();
            if child == 0 {
                let found = find().to_ne_bytes();
                libc::write(ends[1], found.as_ptr().cast(), 4);
                libc::_exit(0);
            }
            let mut found = [0; 4];
            libc::close(ends[1]);
            assert_eq!(libc::read(ends[0], found.as_mut_ptr().cast(), 4), 4);
            libc::close(ends[0]);
            libc::waitpid(child, null_mut(), 0);
            u32::from_ne_bytes(found)
        }
    }

    #[test]
    fn a_forked_child_is_another_address_space_and_a_vforked_one_is_not() {
        let here = number();
        assert_eq!((here, here != 0), (number(), true));
        let mut shared = (0, 0);
        in_vforked_child(|| shared = (number(), std::process::id()));
        assert_eq!(shared.0, here);
        assert_ne!(shared.1, std::process::id(), "its process id is another one");
        let child = in_forked_child(number);
        assert!(child != here && child != 0, "{child}");
        let grandchild = in_forked_child(|| {
            let between = number();
            in_forked_child(|| if number() == between { 0 } else { number() })
        });
        assert!(grandchild != here && grandchild != 0, "{grandchild}");
        assert_eq!(number(), here);
    }

    #[test]
    fn the_first_question_leaves_errno_as_it_is() {
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = 7 };
        assert!(wiped_page().is_some());
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 7);
    }
}
