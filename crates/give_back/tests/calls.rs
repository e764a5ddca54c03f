//! A real program, whose allocator is called from outside: what it gives back, and that it notices nothing.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use allocanary_give_back::{Limits, Refusal, carry_out, remedy};
use allocanary_testing::programs::{Running, compiled};

const LIMITS: Limits = Limits { patience: Duration::from_secs(20), every: None };

fn start(flags: &[&str], arguments: &[&str]) -> Option<(Running, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/holds.c");
    let program = compiled(Path::new(source), folder.path(), flags)?;
    let mut running = Running::start(Command::new(program).args(arguments));
    running.counts();
    Some((running, folder))
}

/// Again until a thread is found that waits: on a busy machine it takes a while.
fn trim_once(pid: u32) -> Result<allocanary_give_back::Done, Refusal> {
    loop {
        match trim(pid) {
            Err(Refusal::NoThread { .. }) => {}
            other => return other,
        }
    }
}

fn trim(pid: u32) -> Result<allocanary_give_back::Done, Refusal> {
    let glibc = remedy::of("glibc").unwrap();
    carry_out(pid, glibc, &(glibc.calls)(), LIMITS)
}

/// In every wait, again and again, while three threads allocate: no call ends early, and registers and `errno` are as before.
#[test]
fn a_thread_that_made_a_call_notices_nothing() {
    for call in ["read", "poll", "select", "epoll_wait", "nanosleep"] {
        let Some((mut running, _folder)) = start(&[], &[call, "storm"]) else { return };
        for _ in 0..10 {
            let done = trim_once(running.pid()).unwrap();
            assert_eq!((done.tid, done.function.name.as_str()), (running.pid(), "malloc_trim"), "{call}: {done}");
            running.go_on("");
            let counts = running.counts();
            assert_eq!((counts["ended"], counts["errno"], counts["same"]), (0, 1234, 1), "{call}");
            // The line's end is read, too.
            assert_eq!(counts["signals"], 0);
        }
        running.kill();
    }
}

/// A signal that comes during the call is delivered after it.
#[test]
fn a_signal_is_not_lost() {
    let Some((mut running, _folder)) = start(&[], &["read"]) else { return };
    for count in 1..=10 {
        let pid = running.pid();
        let done = std::thread::spawn(move || trim_once(pid));
        Command::new("kill").args(["-USR1", &pid.to_string()]).status().unwrap();
        done.join().unwrap().unwrap();
        running.go_on("");
        assert_eq!(running.counts()["signals"], count);
    }
}

/// A stop of the whole process during a call ends neither the call nor the stop.
#[test]
fn a_process_that_is_stopped_during_a_call_goes_on_as_before() {
    let Some((mut running, _folder)) = start(&[], &["poll", "storm"]) else { return };
    let pid = running.pid();
    for _ in 0..20 {
        let done = std::thread::spawn(move || trim(pid));
        for signal in ["-STOP", "-CONT"] {
            Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
        }
        match done.join().unwrap() {
            Ok(_) | Err(Refusal::NoThread { .. } | Refusal::State { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    running.go_on("");
    let counts = running.counts();
    assert_eq!((counts["errno"], counts["same"]), (1234, 1));
    running.kill();
}

/// A thread that sleeps and allocates in turns is often in another call when it is stopped: in one of the allocator's, with its lock.
#[test]
fn a_thread_that_has_gone_on_into_the_allocator_is_let_go() {
    let Some((mut running, _folder)) = start(&[], &["turns"]) else { return };
    for _ in 0..50 {
        match trim(running.pid()) {
            Ok(_) | Err(Refusal::NoThread { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    running.kill();
}

#[test]
fn a_thread_in_a_signals_handler_is_left_alone() {
    let Some((mut running, _folder)) = start(&[], &["handler"]) else { return };
    let refused = trim(running.pid()).unwrap_err();
    assert!(matches!(refused, Refusal::NoThread { .. }), "{refused}");
    running.kill();
}

#[test]
fn a_static_program_without_symbols_is_refused_by_the_name_of_the_function() {
    let Some((mut running, _folder)) = start(&["-static", "-s"], &["read"]) else { return };
    let refused = trim(running.pid()).unwrap_err().to_string();
    assert!(refused.contains("`malloc_trim` of glibc") && refused.contains("/holds"), "{refused}");
    running.kill();
}

#[test]
fn a_static_program_with_symbols_is_called() {
    let Some((mut running, _folder)) = start(&["-static"], &["poll"]) else { return };
    // A linker takes only functions that are used: this program has `malloc_trim` if anything refers to it.
    match trim(running.pid()) {
        Ok(_) | Err(Refusal::NoFunction { .. }) => {}
        Err(other) => panic!("{other}"),
    }
    running.go_on("");
    assert_eq!(running.counts()["ended"], 0);
}

#[test]
fn a_process_that_is_traced_or_stopped_is_refused() {
    let Some((mut running, _folder)) = start(&[], &["read"]) else { return };
    let frozen = allocanary_heap::Frozen::stop(running.pid()).unwrap();
    let pid = running.pid();
    let refused = std::thread::spawn(move || trim(pid)).join().unwrap().unwrap_err().to_string();
    assert!(refused.contains("traces it already"), "{refused}");
    drop(frozen);
    Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap();
    // The thread is stopped when the signal has reached it.
    let refused = loop {
        match trim(pid) {
            Ok(_) | Err(Refusal::NoThread { .. }) => {}
            Err(refused) => break refused.to_string(),
        }
    };
    assert!(refused.contains("it is stopped"), "{refused}");
    Command::new("kill").args(["-CONT", &pid.to_string()]).status().unwrap();
    running.go_on("");
    assert_eq!(running.counts()["ended"], 0);
}
