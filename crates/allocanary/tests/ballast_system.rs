//! `Ballast` over glibc, in a process of its own.
#![cfg(target_env = "gnu")]

mod ballast;

use std::process::Command;

use allocanary::Ballast;
use allocanary::ballast::Kept;
use allocanary::tuning::{Error, purge};
use allocanary_text::units::Bytes;
use ballast::{BURST, alone, faults, status, through_a_burst};

// More arenas than threads: in a shared arena, blocks of the test harness would be above a burst, and its memory could not
// go back.
allocanary::install!(system, arena_max = 16);

/// A burst below a guard, which keeps its memory; then the resident bytes before and after `end`.
fn kept_and_after<T>(end: impl FnOnce(Kept) -> T) -> (u64, u64) {
    let kept = Ballast::keep(Bytes(BURST * 2)).unwrap();
    faults(1);
    let before = status("VmRSS:");
    let _held = end(kept);
    (before, status("VmRSS:"))
}

#[test]
fn the_guards_end_and_a_purge_give_back_each_by_itself() {
    let _alone = alone();
    let (kept, after) = kept_and_after(drop);
    assert!(after + BURST / 2 < kept, "the guard's end: {after} resident after it, {kept} before");
    // The guard still exists: the purge gives the top of this thread's arena back.
    let (kept, after) = kept_and_after(|kept| {
        purge().unwrap();
        kept
    });
    assert!(after + BURST / 2 < kept, "a purge: {after} resident after it, {kept} before");
}

#[test]
fn freed_memory_is_kept_inside_the_guard_and_goes_after_it() {
    let _alone = alone();
    let keep = || Ballast::keep(Bytes(BURST * 2)).unwrap();
    through_a_burst(keep, |kept| {
        assert_eq!(kept.at_most(), Some(Bytes(BURST * 2 * 16)), "the bytes in each of 16 arenas");
        assert!(kept.lost().unwrap().contains("adapt no more"));
        assert_eq!(kept.settle(), Ok(Bytes(0)), "glibc keeps to its limit by itself");
        let second = Ballast::keep(Bytes(1)).unwrap_err();
        assert!(second.to_string().contains("another guard is in force"), "{second}");
    });
}

#[test]
fn what_glibc_cannot_count_is_an_error() {
    let _alone = alone();
    let error = Ballast::keep(Bytes(2 << 30)).unwrap_err();
    assert!(matches!(error, Error::Unsupported { allocator: "system", .. }), "{error}");
    assert!(matches!(Ballast::keep(Bytes(0)), Err(Error::Refused { .. })));
    // And neither of them has left the place taken.
    drop(Ballast::keep(Bytes(1 << 20)).unwrap());
}

#[test]
fn reserved_addresses_cost_no_memory_until_they_are_touched() {
    let _alone = alone();
    purge().unwrap();
    // The arenas of threads that start and end at the same time also use addresses: up to 128 MiB each, for at most six
    // threads.
    const SIZE: u64 = 4 << 30;
    let (addresses, resident) = (status("VmSize:"), status("VmRSS:"));
    let mut reserved = Ballast::reserve(Bytes(SIZE)).unwrap();
    assert!(status("VmSize:") >= addresses + SIZE / 2);
    assert!(status("VmRSS:") < resident + (64 << 20));
    reserved.as_mut_slice()[..16 << 20].fill(1);
    let touched = status("VmRSS:");
    assert!(touched > resident + (15 << 20), "{touched}");
    reserved.clear();
    assert!(status("VmRSS:") < touched - (14 << 20));
    drop(reserved);
    assert!(status("VmSize:") < addresses + SIZE / 2);
}

#[test]
#[ignore = "run by the next as a child"]
fn reserve_in_a_child() {
    println!("{}", Ballast::reserve(Bytes(8 << 30)).unwrap_err());
}

#[test]
fn a_limit_on_addresses_is_named_with_what_it_leaves() {
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 4000000 && exec \"$0\" --exact reserve_in_a_child --ignored --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("reserving 8.00 GiB: the limit on address space (RLIMIT_AS, ulimit -v) leaves 3."), "{said}");
}
