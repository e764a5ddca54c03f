//! Calls the allocator of a real program from outside. The tests check what it gives back, and that the program notices
//! nothing.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use allocanary_inside::give_back::{Limits, Refusal, carry_out, remedy, steps};
use allocanary_testing::programs::{Running, compiled};
use allocanary_testing::skipped::skipped;

const LIMITS: Limits = Limits { patience: Duration::from_secs(20), every: None };

/// The calls that the C library makes for `poll` and `epoll_wait`.
const POLL: &str = if cfg!(target_arch = "aarch64") { "ppoll" } else { "poll" };
const EPOLL: &str = if cfg!(target_arch = "aarch64") { "epoll_pwait" } else { "epoll_wait" };

fn start(flags: &[&str], arguments: &[&str]) -> Option<(Running, tempfile::TempDir)> {
    start_of("holds.c", flags, arguments)
}

fn start_of(source: &str, flags: &[&str], arguments: &[&str]) -> Option<(Running, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let program = compiled(&source, folder.path(), flags)?;
    let mut running = Running::start(Command::new(program).args(arguments));
    running.counts();
    Some((running, folder))
}

/// Tries again until a waiting thread is found. On a busy machine this takes a while.
fn trim_once(pid: u32) -> Result<allocanary_inside::give_back::GiveBackResult, Refusal> {
    loop {
        match trim(pid) {
            Err(Refusal::NoThread { .. }) => {}
            other => return other,
        }
    }
}

fn trim(pid: u32) -> Result<allocanary_inside::give_back::GiveBackResult, Refusal> {
    let glibc = remedy::of("glibc").unwrap();
    carry_out(pid, glibc, &(glibc.calls)(), LIMITS)
}

/// Makes calls in every kind of wait, again and again, while three threads allocate. No wait ends early, and registers and
/// `errno` are as before.
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
            // The program has also read the end of the line.
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

/// A thread that sleeps and allocates in turns is often in another call when it is stopped: in one of the allocator's, while it holds
/// the allocator's lock.
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
    // The linker includes only functions that are used, so `malloc_trim` may be missing in this program.
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
    // The thread is stopped as soon as it has got the signal.
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

/// A caller for the test below, in a separate process. It kills itself after a number of steps.
#[test]
#[ignore = "it is started by another test"]
fn a_caller_that_is_killed() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (Some(pid), Some(after)) = (number("CALLED"), number("STEPS")) else { return };
    steps::end_after(after);
    let _ = trim(pid);
    // 0 if it has made all of its steps.
    std::process::exit(i32::from(steps::left() == 0));
}

/// Callers are killed after each step in turn, in each kind of wait. The program's registers, masks and error numbers must not
/// change.
#[test]
fn a_caller_that_is_killed_after_any_step_leaves_the_program_as_it_was() {
    for call in ["poll", "select", "nanosleep", "clock_nanosleep", "epoll_wait", "read", "recvfrom"] {
        let Some((mut running, _folder)) = start_of("checks.c", &[], &[call, "storm"]) else { return };
        let mut killed = 0;
        for after in 1.. {
            let mut caller = Command::new(std::env::current_exe().unwrap());
            caller.args(["--exact", "a_caller_that_is_killed", "--ignored"]).stdout(Stdio::null());
            caller.env("CALLED", running.pid().to_string()).env("STEPS", after.to_string());
            let status = caller.status().unwrap();
            running.go_on("");
            let counts = running.counts();
            assert_eq!((counts["changed"], counts["early"], counts["wrong"]), (0, 0, 0), "{call}, step {after}");
            // Such an end is allowed only if the kernel itself ends an interrupted call, and only until the thread is
            // told to make it again.
            assert!(counts["ended"] == 0 || call == "epoll_wait", "{call}, step {after}");
            if status.code() == Some(0) {
                break;
            }
            killed += 1;
        }
        assert!(killed >= 12, "{killed} steps in {call}");
        running.kill();
    }
}

/// The reason why a thread at a certain place is not borrowed.
fn refused_at(place: &str) -> Option<String> {
    let (mut running, _folder) = start_of("stands.c", &[], &[place])?;
    let refused = loop {
        match trim(running.pid()) {
            // The thread has printed its number, and is about to wait.
            Err(Refusal::NoThread { found, .. }) if found.contains("running") => {}
            other => break other.unwrap_err().to_string(),
        }
    };
    running.kill();
    Some(refused)
}

#[test]
fn a_thread_that_may_hold_a_lock_or_whose_stack_is_not_known_is_refused() {
    let Some(fork) = refused_at("fork") else { return };
    assert!(fork.contains(&format!("1 waiting in {POLL} inside of fork")), "{fork}");
    let coroutine = refused_at("coroutine").unwrap();
    assert!(coroutine.contains("on a stack whose size is not known"), "{coroutine}");
    let lock = refused_at("lock").unwrap();
    assert!(lock.contains("1 waiting in futex for another thread") && lock.contains("such as a timer"), "{lock}");
}

/// A frame of the usual size has no room for the registers of matrices.
#[cfg(target_arch = "aarch64")]
#[test]
fn a_thread_that_uses_registers_for_matrices_is_refused() {
    const SME: u64 = 1 << 23;
    // SAFETY: the function has no conditions.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & SME == 0 {
        return skipped("the processor has no SME");
    }
    let refused = refused_at("matrix").unwrap();
    assert!(refused.contains("with registers for matrices in use (SME)"), "{refused}");
}

/// Handlers of `fork` may have locked all of an allocator other than glibc's. Then no thread is called, not even another one.
#[test]
fn while_a_thread_forks_another_allocator_is_not_called() {
    let Some((mut running, _folder)) = start_of("stands.c", &[], &["fork"]) else { return };
    let tcmalloc = remedy::of("tcmalloc").unwrap();
    let refused = loop {
        match carry_out(running.pid(), tcmalloc, &(tcmalloc.calls)(), LIMITS) {
            Err(Refusal::NoThread { .. }) => {}
            other => break other.unwrap_err().to_string(),
        }
    };
    assert!(refused.contains(&format!("its thread {} waits inside of fork", running.pid())), "{refused}");
    running.kill();
}

/// After the first interruption the kernel only reports that a call continues, and not which call.
#[test]
fn a_wait_that_was_interrupted_before_is_borrowed_again() {
    let Some((mut running, _folder)) = start_of("stands.c", &[], &[]) else { return };
    for _ in 0..3 {
        trim_once(running.pid()).unwrap();
    }
    running.kill();
}

#[test]
fn a_wait_for_a_condition_is_borrowed() {
    let Some((mut running, _folder)) = start_of("stands.c", &[], &["condition"]) else { return };
    assert_eq!(trim_once(running.pid()).unwrap().wait, "futex");
    running.kill();
}

/// A filter that only forbids calls that are not made here is no reason to refuse. A filter that would end the process is a reason.
#[test]
fn a_filter_is_asked_about_what_is_done() {
    let Some((mut running, _folder)) = start_of("stands.c", &[], &["code"]) else { return };
    match trim_once(running.pid()) {
        Ok(done) => assert_eq!(done.wait, POLL),
        Err(refused) => {
            // Reading a filter needs a right that not every user has.
            assert!(refused.to_string().contains("may not be read here"), "{refused}");
            return skipped(refused);
        }
    }
    running.kill();
    let refused = refused_at("advice").unwrap();
    let call = format!("seccomp filter does not allow system call {} ", libc::SYS_madvise);
    assert!(refused.contains(&call), "{refused}");
}

#[test]
fn a_time_out_that_would_begin_anew_again_and_again_is_left_alone() {
    let Some((mut running, _folder)) = start_of("stands.c", &[], &["epoll"]) else { return };
    let glibc = remedy::of("glibc").unwrap();
    let often = Limits { every: Some(Duration::from_secs(1)), ..LIMITS };
    let refused = carry_out(running.pid(), glibc, &(glibc.calls)(), often).unwrap_err().to_string();
    assert!(refused.contains(&format!("in {EPOLL} for 60s, which would begin anew each 1s")), "{refused}");
    assert!(refused.contains("Take an --every that is longer"), "{refused}");
    let rarely = Limits { every: Some(Duration::from_secs(60)), ..LIMITS };
    carry_out(running.pid(), glibc, &(glibc.calls)(), rarely).unwrap();
    running.kill();
}

/// A call that waits for a lock and cannot be abandoned continues without this command, and the thread returns by
/// itself.
#[test]
fn a_call_that_is_not_waited_for_any_more_ends_by_itself() {
    let Some((mut running, _folder)) = start_of("stands.c", &[], &["blocked"]) else { return };
    let tcmalloc = remedy::of("tcmalloc").unwrap();
    let limits = Limits { patience: Duration::from_millis(300), every: None };
    let left = loop {
        match carry_out(running.pid(), tcmalloc, &(tcmalloc.calls)(), limits) {
            Err(Refusal::NoThread { .. }) => {}
            other => break other,
        }
    };
    assert!(matches!(left, Err(Refusal::Left { .. })), "{left:?}");
    // The thread is still inside of our call.
    let again = carry_out(running.pid(), tcmalloc, &(tcmalloc.calls)(), limits).unwrap_err();
    assert!(matches!(again, Refusal::NoThread { .. }), "{again}");
    Command::new("kill").args(["-USR1", &running.pid().to_string()]).status().unwrap();
    running.go_on("");
    let counts = running.counts();
    assert_eq!((counts["ready"], counts["errno"], counts["released"]), (1, 1234, 1));
    running.kill();
}

/// Without calls, everything else is done.
#[test]
fn a_dry_run_names_the_thread_and_leaves_it_as_it_was() {
    let Some((mut running, _folder)) = start(&[], &["poll"]) else { return };
    let done = loop {
        match carry_out(running.pid(), remedy::of("glibc").unwrap(), &[], LIMITS) {
            Err(Refusal::NoThread { .. }) => {}
            other => break other.unwrap(),
        }
    };
    assert_eq!((done.tid, done.wait, done.calls.len()), (running.pid(), POLL, 0));
    running.go_on("");
    let counts = running.counts();
    assert_eq!((counts["ended"], counts["errno"], counts["same"]), (0, 1234, 1));
}
