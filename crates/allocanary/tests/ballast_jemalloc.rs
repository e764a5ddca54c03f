//! `Ballast` over jemalloc, in a process of its own.
#![cfg(feature = "jemalloc")]

mod ballast;

use std::sync::mpsc;
use std::time::Duration;

use allocanary::Ballast;
use allocanary::tuning::{Pages, decay, set_decay};
use allocanary_text::units::Bytes;
use ballast::{BURST, alone, faults, status, through_a_burst};

// Decay at once, so that only the guard keeps memory. There are more arenas than these tests have threads, so that one
// more can be made.
allocanary::install!(jemalloc, narenas = 32, dirty_decay_ms = 0, muzzy_decay_ms = 0);

/// The steps run in one thread: an arena that another thread is just making may still have the old decay time.
#[test]
fn memory_is_kept_by_jemalloc_inside_the_guard_only() {
    let _alone = alone();
    freed_memory_is_kept_inside_the_guard_and_goes_after_it();
    what_is_kept_beyond_the_bytes_goes_when_it_is_asked_to();
    each_arena_gets_its_own_time_back();
}

fn freed_memory_is_kept_inside_the_guard_and_goes_after_it() {
    let keep = || Ballast::keep(Bytes(BURST)).unwrap();
    through_a_burst(keep, |kept| {
        assert_eq!(decay(Pages::Dirty), Ok(None), "never");
        assert_eq!((kept.at_most(), kept.lost()), (None, None));
    });
    assert_eq!(decay(Pages::Dirty), Ok(Some(Duration::ZERO)));
}

fn what_is_kept_beyond_the_bytes_goes_when_it_is_asked_to() {
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

/// A thread that has an arena and lives until this is dropped. It gets an existing arena without a thread, if a thread of
/// another test has ended, before a new one is made.
fn thread_with_an_arena() -> mpsc::Sender<()> {
    let (live_on, until) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        std::hint::black_box(vec![1_u8; 1 << 20]);
        ready.send(()).unwrap();
        let _ = until.recv();
    });
    is_ready.recv().unwrap();
    live_on
}

fn each_arena_gets_its_own_time_back() {
    set_decay(Pages::Dirty, Some(Duration::from_millis(1234))).unwrap();
    let before = times();
    assert!(before.iter().all(|time| *time == 1234), "{before:?}");
    let kept = Ballast::keep(Bytes(1)).unwrap();
    // After the guard, an arena that was made during it has the decay time that it would have had without the guard.
    let mut living = Vec::new();
    while times().len() == before.len() {
        assert!(living.len() < 8, "8 threads and no arena more: {before:?}");
        living.push(thread_with_an_arena());
    }
    drop(kept);
    let after = times();
    assert!(after.len() > before.len() && after.iter().all(|time| *time == 1234), "{before:?}, then {after:?}");
    // An arena that is made after the last reading of the arenas is not forgotten.
    living.extend((0..=after.len()).map(|_| thread_with_an_arena()));
    set_decay(Pages::Dirty, Some(Duration::ZERO)).unwrap();
    let last = times();
    assert!(last.len() > after.len() && last.iter().all(|time| *time == 0), "{after:?}, then {last:?}");
}
