//! A process that is stopped and let go notices nothing: no wait ends, and no signal is lost.

mod running;

use std::fs;

use allocanary_heap::Frozen;
use running::{Running, compiled};

#[test]
fn no_wait_ends_and_no_signal_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "waits", &[]) else { return };
    let mut running = Running::start(&program, "", "");
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
    // SAFETY: a system call with three numbers; the thread is of a program that this test started.
    assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, pid, epoll, libc::SIGUSR1) }, 0);
    drop(frozen);
    running.go_on("s");
    assert_eq!(running.counts()["ended"], 1);
}

#[test]
fn a_process_that_is_traced_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "waits", &[]) else { return };
    let mut running = Running::start(&program, "", "");
    running.counts();
    let first = Frozen::stop(running.pid()).unwrap();
    let pid = running.pid();
    let second = std::thread::spawn(move || Frozen::stop(pid).map(drop).unwrap_err().to_string()).join().unwrap();
    assert!(second.contains(&format!("process {} traces it already", std::process::id())), "{second}");
    drop(first);
    running.go_on("");
    assert_eq!(running.counts()["ended"], 0);
}
