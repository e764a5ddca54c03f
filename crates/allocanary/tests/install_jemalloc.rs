//! `install!(jemalloc, ...)` in a process of its own: settings from code and environment, sizes by container, tuning.
#![cfg(feature = "jemalloc")]
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::process::Command;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allocanary::tuning::{self, ArenaLimit, Error, Pages};

mod idling;
mod moments;

use allocanary_testing::skipped::skipped;
use tikv_jemalloc_ctl::raw;

allocanary::install!(jemalloc, narenas = per_cpu(3), dirty_decay_ms = 5000, percpu_arena = "disabled");

/// Held by each test that changes or counts the whole process's memory.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the ignored test `report` of this binary in a separate process and returns its output.
fn report(variables: &[(&str, &str)], wrapper: &[&str]) -> String {
    let this = std::env::current_exe().unwrap();
    let words: Vec<&str> = wrapper.iter().copied().chain([this.to_str().unwrap()]).collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .args(["--exact", "report_of_a_child", "--ignored", "--nocapture"])
        .env_remove("MALLOC_CONF")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
#[ignore = "run by the others as a child"]
fn report_of_a_child() {
    println!("arenas {:?}", tuning::most_arenas().unwrap());
    let settings = tuning::settings().unwrap();
    println!("tcache {} decay {}", settings["tcache"], settings["dirty_decay_ms"]);
    println!("check {:?}", tuning::check());
}

fn arenas(report: &str) -> u32 {
    let (_, rest) = report.split_once("arenas Some(").unwrap_or_else(|| panic!("no arenas in {report}"));
    rest.split(')').next().unwrap().parse().unwrap()
}

#[test]
fn arenas_follow_the_processors_at_hand() {
    let cpus = allocanary::container::Cpus::here();
    assert_eq!(tuning::most_arenas(), Ok(Some(cpus.count() * 3)));
    tuning::check().unwrap();
    // An affinity of one processor, if there is a choice.
    assert_eq!(arenas(&report(&[], &["taskset", "-c", "0"])), 3);
}

#[test]
fn the_environment_wins_key_by_key_and_the_later_variable_over_the_earlier() {
    for variable in ["JE_MALLOC_CONF", "MALLOC_CONF", "_RJEM_MALLOC_CONF"] {
        let report = report(&[(variable, "narenas:1")], &[]);
        assert_eq!(arenas(&report), 1, "{variable}");
        assert!(report.contains("decay 5000") && report.contains("check Ok(())"), "{report}");
    }
    let all = [
        ("JE_MALLOC_CONF", "narenas:5,tcache:false"),
        ("MALLOC_CONF", "narenas:6,dirty_decay_ms:7"),
        ("_RJEM_MALLOC_CONF", "narenas:7"),
    ];
    let report = report(&all, &[]);
    assert_eq!(arenas(&report), 7);
    assert!(report.contains("tcache false decay 7"), "{report}");
}

#[test]
fn what_is_malformed_is_an_error_and_not_a_line_on_stderr() {
    let said = report(&[("MALLOC_CONF", "narena:1,dirty_decay_ms:soon,tcache")], &[]);
    assert!(said.contains("MALLOC_CONF: jemalloc has no setting `narena`"), "{said}");
    assert!(said.contains("MALLOC_CONF: dirty_decay_ms: wanted a whole number, -1 or more, found `soon`"), "{said}");
    assert!(said.contains("MALLOC_CONF: `tcache` is not `name:value`"), "{said}");
    let said = report(&[("MALLOC_CONF", "junk:bogus,zero:1")], &[]);
    assert!(said.contains("MALLOC_CONF: junk: wanted one of true, false, alloc, free, found `bogus`"), "{said}");
    assert!(said.contains("MALLOC_CONF: zero: wanted true or false, found `1`"), "{said}");
    let said = report(&[("MALLOC_CONF", "confirm_conf:false,stats_print:false")], &[]);
    assert!(said.contains("check Ok"), "known, if not studied: {said}");
    let said = report(&[("MALLOC_CONF", "tcache_max:1048576")], &[]);
    assert!(said.contains("tcache_max: wanted 1048576, found 32768"), "{said}");
    let said = report(&[("MALLOC_CONF", "narenas:5000")], &[]);
    assert!(said.contains("narenas: wanted a whole number from 1 to 4094, found `5000`"), "{said}");
    let long = format!("narenas:1,{}tcache:true", "tcache:true,".repeat(500));
    let said = report(&[("MALLOC_CONF", &long)], &[]);
    assert!(said.contains("over 4 kB"), "{said}");
}

/// A control group with a quota of CPU time, in cgroup v1 or v2; none where one cannot be made.
struct Quota(std::path::PathBuf);

impl Quota {
    fn new(quota_us: u32) -> Option<Quota> {
        let name = format!("allocanary-test-{}-{quota_us}", std::process::id());
        let v1 = std::path::Path::new("/sys/fs/cgroup/cpu").join(&name);
        let v2 = std::path::Path::new("/sys/fs/cgroup").join(&name);
        if fs::create_dir(&v1).is_ok() {
            let group = Quota(v1);
            fs::write(group.0.join("cpu.cfs_period_us"), "100000").ok()?;
            fs::write(group.0.join("cpu.cfs_quota_us"), quota_us.to_string()).ok()?;
            return Some(group);
        }
        fs::create_dir(&v2).ok()?;
        let group = Quota(v2);
        fs::write(group.0.join("cpu.max"), format!("{quota_us} 100000")).ok()?;
        Some(group)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn arenas_follow_the_quota_of_a_real_control_group() {
    let host = allocanary::container::Cpus::here().affinity;
    for (quota_us, cpus) in [(50_000, 1), (100_000, 1), (150_000, 2), (200_000, 2)] {
        let Some(group) = Quota::new(quota_us) else {
            skipped("no control group can be made here");
            return;
        };
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
        let report = report(&[], &["sh", "-c", &join, "sh"]);
        assert_eq!(arenas(&report), cpus.min(host) * 3, "a quota of {quota_us} us in 100000");
    }
}

/// An unreadable quota, in namespaces of the child: there is a folder in place of the file.
#[test]
fn a_quota_that_cannot_be_read_is_told_and_the_affinity_counts() {
    let groups = tempfile::NamedTempFile::new().unwrap();
    fs::write(groups.path(), "0::/\n").unwrap();
    let hide =
        "mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/cpu.max && mount --bind \"$0\" /proc/$$/cgroup";
    let wrapper = |then: &str| {
        ["unshare", "-m", "sh", "-c", &format!("{hide} && {then}"), groups.path().to_str().unwrap()].map(String::from)
    };
    let possible = Command::new("unshare").args(&wrapper("true")[1..]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        skipped("no mount namespace can be made here");
        return;
    }
    let words = wrapper("exec \"$@\"");
    let said = report(&[], &words.each_ref().map(String::as_str));
    assert_eq!(arenas(&said), allocanary::container::Cpus::here().affinity * 3, "{said}");
    assert!(
        said.contains("narenas follows the CPUs available to this process, and the CPU quota's file cannot be read"),
        "{said}"
    );
}

#[test]
fn threads_can_be_bound_and_limited() {
    let limit = ArenaLimit::new(2);
    let joined: Vec<u32> =
        (0..4).map(|_| std::thread::scope(|scope| scope.spawn(|| limit.join().unwrap()).join().unwrap())).collect();
    assert_eq!(joined, [0, 1, 0, 1]);
    let most = tuning::most_arenas().unwrap().unwrap();
    let refused = tuning::bind_current_thread(most).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains(&format!("wanted an arena below {most}, found {most}")), "{refused}");
}

#[test]
fn thread_caches_are_switched_limited_and_flushed() {
    std::thread::spawn(|| {
        assert_eq!(tuning::set_thread_cache(false), Ok(true));
        assert_eq!(tuning::set_thread_cache(true), Ok(false));
        tuning::set_thread_cache_max(4096).unwrap();
        tuning::flush_thread_cache().unwrap();
        tuning::set_thread_cache(false).unwrap();
        assert!(matches!(tuning::flush_thread_cache(), Err(Error::Unsupported { .. })));
    })
    .join()
    .unwrap();
}

#[test]
fn decay_purge_and_statistics_agree() {
    let _alone = alone();
    let held = || {
        let blocks: Vec<Vec<u8>> = (0..2000).map(|_| vec![1; 20_000]).collect();
        std::hint::black_box(&blocks);
        blocks.iter().map(Vec::len).sum::<usize>() as u64
    };
    tuning::set_decay(Pages::Dirty, None).unwrap();
    assert_eq!(tuning::decay(Pages::Dirty), Ok(None));
    let bytes = held();
    let before = tuning::statistics().unwrap();
    tuning::purge().unwrap();
    let after = tuning::statistics().unwrap();
    let resident = |statistics: tuning::Statistics| statistics.counters.resident.unwrap();
    assert!(resident(before) > resident(after) + bytes / 2, "{before:?} {after:?}");
    assert!(after.fragmentation.unwrap() >= 1.0 && after.counters.arenas.unwrap() >= 1);

    // Zero must reach existing arenas: then nothing stays, even without a purge.
    tuning::set_decay(Pages::Dirty, Some(Duration::ZERO)).unwrap();
    tuning::set_decay(Pages::Muzzy, Some(Duration::ZERO)).unwrap();
    held();
    assert!(resident(tuning::statistics().unwrap()) < resident(after) + bytes / 2);
    tuning::set_decay(Pages::Dirty, Some(Duration::from_secs(5))).unwrap();
    assert_eq!(tuning::decay(Pages::Dirty), Ok(Some(Duration::from_secs(5))));
}

#[test]
fn calls_from_many_threads_at_once_and_from_threads_that_exit() {
    let _alone = alone();
    struct AtExit;
    impl Drop for AtExit {
        fn drop(&mut self) {
            // The thread's cache may already be destroyed; the calls must still return.
            let _ = tuning::flush_thread_cache();
            let _ = tuning::statistics().unwrap();
        }
    }
    thread_local!(static AT_EXIT: AtExit = const { AtExit });
    let gate = Barrier::new(8);
    std::thread::scope(|scope| {
        for index in 0..8_u64 {
            let gate = &gate;
            scope.spawn(move || {
                AT_EXIT.with(|_| ());
                gate.wait();
                for _ in 0..50 {
                    tuning::set_decay(Pages::Muzzy, Some(Duration::from_millis(index))).unwrap();
                    tuning::statistics().unwrap();
                    tuning::purge().unwrap();
                }
            });
        }
    });
}

#[test]
fn background_threads_are_switched_and_are_off_after_a_fork() {
    let _alone = alone();
    assert_eq!(tuning::set_background_threads(true), Ok(false));
    assert_eq!(tuning::set_background_threads(false), Ok(true));
    // SAFETY: the child calls the allocator, which must survive a fork, and ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let statistics = tuning::statistics().is_ok();
        let purged = tuning::purge().is_ok();
        let bytes = std::hint::black_box(vec![7_u8; 1 << 20]);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(i32::from(!(statistics && purged && bytes[99] == 7))) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
}

#[test]
fn a_thread_has_no_cache_in_a_long_wait_and_has_it_again_after() {
    // A thread that frees while this one purges their arena leaves its pages to the next purge.
    let _alone = alone();
    const CACHE: &[u8] = b"thread.tcache.enabled\0";
    // SAFETY: the key is a `bool`.
    let has_cache = || unsafe { raw::read::<bool>(CACHE) }.unwrap();
    let wait = move |ends: fn(usize) -> bool| {
        let mut seen = Vec::new();
        std::hint::black_box(vec![1_u8; 100_000]); // else nothing is due
        tuning::wait(Duration::ZERO, |_| {
            seen.push(has_cache());
            ends(seen.len()).then_some(())
        });
        seen
    };
    let own = std::thread::spawn(move || {
        assert_eq!(wait(|waits| waits == 1), [true]);
        assert_eq!(wait(|waits| waits == 2), [true; 2]);
        assert_eq!(wait(|waits| waits == 4), [true, true, false, false]);
        assert!(has_cache());
        let panics = std::panic::catch_unwind(|| wait(|waits| waits == 3 && panic!("in a wait")));
        assert!(panics.is_err() && has_cache(), "also after a panic");
        // SAFETY: as above.
        unsafe { raw::write(CACHE, false) }.unwrap();
        assert_eq!(wait(|waits| waits == 3), [false; 3]);
        assert!(!has_cache(), "a cache that the user has turned off stays off");
    });
    own.join().unwrap();
}
