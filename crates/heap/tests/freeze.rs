//! A process that is stopped and continues notices nothing: no wait ends, and no signal is lost.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

mod running;

use std::fs;

use allocanary_heap::Frozen;
use running::{compiled, start};

#[test]
fn no_wait_ends_and_no_signal_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "waits", &[]) else { return };
    let mut running = start(&program, "", "");
    let pid = running.pid();
    let epoll = running.counts()["thread"] as libc::pid_t;
    for _ in 0..20 {
        let frozen = Frozen::stop(pid).unwrap();
        let tasks: Vec<_> =
            fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path()).collect();
        assert_eq!(tasks.len(), 7);
        for task in &tasks {
            let stat = fs::read(task.join("stat")).unwrap();
            assert!(String::from_utf8_lossy(&stat).contains(") t "), "{}", task.display());
        }
        drop(frozen);
        running.go_on("");
        assert_eq!(running.counts()["ended"], 0);
    }
    let frozen = Frozen::stop(pid).unwrap();
    // SAFETY: a system call with three numbers. The thread belongs to a program that this test started.
    assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, pid, epoll, libc::SIGUSR1) }, 0);
    drop(frozen);
    running.go_on("s");
    // The signal ends a wait only if the thread waits again at that time. On a busy machine it may not have reached its
    // wait yet.
    assert_eq!(running.counts()["signals"], 1);
}

#[test]
fn a_process_that_is_traced_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "waits", &[]) else { return };
    let mut running = start(&program, "", "");
    running.counts();
    let first = Frozen::stop(running.pid()).unwrap();
    let pid = running.pid();
    let second = std::thread::spawn(move || Frozen::stop(pid).map(drop).unwrap_err().to_string()).join().unwrap();
    assert!(second.contains(&format!("process {} traces it already", std::process::id())), "{second}");
    drop(first);
    running.go_on("");
    assert_eq!(running.counts()["ended"], 0);
}

/// Whether this thread blocks a signal.
fn blocks(signal: i32) -> bool {
    let status = fs::read("/proc/thread-self/status").unwrap();
    let status = String::from_utf8_lossy(&status).into_owned();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

#[test]
fn signals_wait_until_the_process_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "waits", &[]) else { return };
    let mut running = start(&program, "", "");
    running.counts();
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    let before = signals.map(blocks);
    let frozen = Frozen::stop(running.pid()).unwrap();
    assert_eq!(signals.map(blocks), [true; 6]);
    drop(frozen);
    assert_eq!(signals.map(blocks), before);
    assert!(Frozen::stop(0x3fff_ffff).is_err());
    assert_eq!(signals.map(blocks), before);
}
