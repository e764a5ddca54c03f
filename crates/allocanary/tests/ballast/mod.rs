//! Shared by the tests of the three guards: bursts, and their cost for this process. Counts, never times.

use std::sync::{Mutex, MutexGuard, PoisonError};

use allocanary_sys::sys;

/// Held by each test that counts the whole process's faults or memory.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of a burst.
pub const BURST: u64 = 48 << 20;

/// The page faults of `bursts` bursts, each of which allocates, touches and frees blocks of 64 KiB. No block is one that
/// glibc maps by itself or that jemalloc and mimalloc treat as huge.
pub fn faults(bursts: u32) -> u64 {
    let before = sys::usage().minor_faults;
    for burst in 0..bursts {
        let blocks: Vec<Vec<u8>> = (0..BURST >> 16).map(|_| vec![burst as u8 | 1; 64 << 10]).collect();
        assert!(blocks.iter().all(|block| block[65_535] == burst as u8 | 1));
        drop(blocks);
    }
    sys::usage().minor_faults - before
}

/// A line of /proc/self/status, in bytes: `VmRSS:`, `VmSize:`.
pub fn status(key: &str) -> u64 {
    let text = std::fs::read("/proc/self/status").unwrap();
    sys::line_number(&text, key.as_bytes()).unwrap() * 1024
}

/// Bursts outside, inside and after a guard; the guard is made by `keep` and given to `look` while memory is kept.
pub fn through_a_burst<G>(keep: impl FnOnce() -> G, look: impl FnOnce(&G)) {
    const BURSTS: u32 = 4;
    faults(1); // one-time allocations
    let (outside, start) = (faults(BURSTS), status("VmRSS:"));
    let pages = u64::from(BURSTS) * BURST / sys::page_bytes();
    assert!(outside > pages / 2, "without a guard every burst faults anew: {outside} faults for {pages} pages");

    let guard = keep();
    faults(1); // the first one brings the memory in
    let inside = faults(BURSTS);
    assert!(inside * 2 <= outside, "{inside} faults inside, {outside} outside");
    let kept = status("VmRSS:");
    assert!(kept > start + BURST / 2, "{kept} resident after bursts inside, {start} after bursts outside");
    look(&guard);
    drop(guard);
    allocanary::tuning::purge().unwrap();
    let end = status("VmRSS:");
    assert!(end < start + BURST / 4, "{end} resident at the end, {start} before, {kept} between");

    faults(1);
    let after = faults(BURSTS);
    assert!(after * 2 > outside, "the settings are as they were: {after} faults after, {outside} before");
}
