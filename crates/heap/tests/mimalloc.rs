//! A program with mimalloc linked in is read from outside. Not one byte may differ from its own count.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

mod known;

use known::Counted;

/// The usable size of a block.
unsafe fn usable(block: *const u8) -> usize {
    // SAFETY: the caller gives a block of mimalloc.
    unsafe { libmimalloc_sys::mi_usable_size(block.cast()) }
}

#[global_allocator]
static GLOBAL: Counted<mimalloc::MiMalloc> = Counted { inner: mimalloc::MiMalloc, usable };

#[test]
fn program() {
    known::program();
}

#[test]
fn every_live_byte_is_found() {
    let walk = known::compare("mimalloc", "program", &[]);
    let check = &walk.checks[0];
    assert_eq!((check.what.as_str(), check.wanted), ("pages of the main heap", check.found));
}
