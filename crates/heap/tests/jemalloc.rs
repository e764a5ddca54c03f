//! A program with jemalloc linked in is read from outside. Not one byte may differ from its own count.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

mod known;

use known::Counted;

/// The usable size of a block.
unsafe fn usable(block: *const u8) -> usize {
    // SAFETY: the caller gives a block of jemalloc.
    unsafe { tikv_jemallocator::usable_size(block) }
}

#[global_allocator]
static GLOBAL: Counted<tikv_jemallocator::Jemalloc> = Counted { inner: tikv_jemallocator::Jemalloc, usable };

#[test]
fn program() {
    known::program();
}

#[test]
fn every_live_byte_is_found() {
    // Without thread caches, the program's own count covers all blocks.
    let walk = known::compare("jemalloc", "program", &[("_RJEM_MALLOC_CONF", "tcache:false,narenas:3")]);
    let check = &walk.checks[0];
    assert_eq!((check.what.as_str(), check.wanted), ("bytes of active extents", check.found));
}

/// The memory of the caches themselves does not count as the program's.
#[test]
fn what_thread_caches_are_made_of_is_not_live() {
    known::compare("jemalloc", "program", &[("_RJEM_MALLOC_CONF", "tcache:true,narenas:3")]);
}
