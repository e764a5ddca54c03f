//! `Ballast` over jemalloc, in a process of its own.
#![cfg(feature = "jemalloc")]

mod ballast;

use std::sync::Barrier;
use std::time::Duration;

use allocanary::Ballast;
use allocanary::tuning::{Pages, decay, set_decay};
use allocanary::units::Bytes;
use ballast::{BURST, alone, faults, status, through_a_burst};

// Decay at once, so that what is kept is kept by the guard.
// More arenas than tests have threads, so that a new thread has a new one.
allocanary::install!(jemalloc, narenas = 32, dirty_decay_ms = 0, muzzy_decay_ms = 0);

#[test]
fn freed_memory_is_kept_inside_the_guard_and_goes_after_it() {
    let _alone = alone();
    let keep = || Ballast::keep(Bytes(BURST)).unwrap();
    through_a_burst(keep, |kept| {
        assert_eq!(decay(Pages::Dirty), Ok(None), "never");
        assert_eq!((kept.at_most(), kept.lost()), (None, None));
    });
    assert_eq!(decay(Pages::Dirty), Ok(Some(Duration::ZERO)));
}

#[test]
fn what_is_kept_beyond_the_bytes_goes_when_it_is_asked_to() {
    let _alone = alone();
    let kept = Ballast::keep(Bytes(BURST / 8)).unwrap();
    faults(1);
    let before = status("VmRSS:");
    let given_back = kept.settle().unwrap();
    assert!(given_back.0 > BURST / 2, "{given_back:?}");
    assert!(status("VmRSS:") < before - BURST / 2);
    assert!(kept.settle().unwrap().0 < BURST / 8);
}

/// The decay time of every arena there is.
fn times() -> Vec<isize> {
    tikv_jemalloc_ctl::epoch::advance().unwrap(); // which arenas there are is part of the snapshot
    let mut mib = [0; 3];
    tikv_jemalloc_ctl::raw::name_to_mib(b"arena.0.initialized\0", &mut mib).unwrap();
    // SAFETY: the key is an `unsigned`. The index after the last stands for all arenas and has no time of its own.
    let arenas = unsafe { tikv_jemalloc_ctl::raw::read::<u32>(b"arenas.narenas\0") }.unwrap();
    let time = |arena| {
        mib[1] = arena;
        // SAFETY: the key is a `bool`.
        let exists = unsafe { tikv_jemalloc_ctl::raw::read_mib::<bool>(&mib) }.unwrap_or(false);
        let name = format!("arena.{arena}.dirty_decay_ms\0");
        // SAFETY: the key is an `ssize_t`.
        exists.then(|| unsafe { tikv_jemalloc_ctl::raw::read::<isize>(name.as_bytes()) }.unwrap())
    };
    (0..arenas as usize).filter_map(time).collect()
}

/// A thread that lives on, with an arena of its own.
fn another_arena(gate: &'static Barrier) {
    std::thread::spawn(move || {
        std::hint::black_box(vec![1_u8; 1 << 20]);
        gate.wait();
        gate.wait();
    });
    gate.wait();
}

#[test]
fn each_arena_gets_its_own_time_back() {
    static GATES: [Barrier; 2] = [const { Barrier::new(2) }; 2];
    let _alone = alone();
    set_decay(Pages::Dirty, Some(Duration::from_millis(1234))).unwrap();
    let before = times();
    assert!(before.iter().all(|time| *time == 1234), "{before:?}");
    let kept = Ballast::keep(Bytes(1)).unwrap();
    // An arena that is made while the guard is in force gets what it would have had without.
    another_arena(&GATES[0]);
    drop(kept);
    let after = times();
    assert!(after.len() > before.len() && after.iter().all(|time| *time == 1234), "{before:?}, then {after:?}");
    // And one that is made after the last look at the arenas is not passed over.
    another_arena(&GATES[1]);
    set_decay(Pages::Dirty, Some(Duration::ZERO)).unwrap();
    let last = times();
    assert!(last.len() > after.len() && last.iter().all(|time| *time == 0), "{after:?}, then {last:?}");
    GATES.iter().for_each(|gate| {
        gate.wait();
    });
}
