//! Tuning at odd moments: before anything else in a process, after a fork, while threads exit, from many threads at once.
//! In: the allocator that the including test installs. Out: every call comes back, with the answer that it has at any
//! other time. Each moment is a process of its own, and an alarm ends one that hangs.

use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use allocanary::tuning::{self, Error, Pages};
use allocanary_sys::sys;

type Call = (&'static str, fn() -> Result<(), Error>);

const CALLS: [Call; 14] = [
    ("statistics", || tuning::statistics().map(drop)),
    ("purge", tuning::purge),
    ("thread_idle", || tuning::thread_idle().map(drop)),
    ("most_arenas", || tuning::most_arenas().map(drop)),
    ("bind_current_thread", || tuning::bind_current_thread(0)),
    ("set_thread_cache", || tuning::set_thread_cache(true).map(drop)),
    ("set_thread_cache_max", || tuning::set_thread_cache_max(4096)),
    ("flush_thread_cache", tuning::flush_thread_cache),
    ("set_decay", || tuning::set_decay(Pages::Dirty, Some(Duration::from_secs(1)))),
    ("set_decay muzzy", || tuning::set_decay(Pages::Muzzy, Some(Duration::ZERO))),
    ("decay", || tuning::decay(Pages::Dirty).map(drop)),
    ("set_background_threads", || {
        tuning::set_background_threads(true)?;
        tuning::set_background_threads(false).map(drop)
    }),
    ("settings", || tuning::settings().map(drop)),
    ("check", || match tuning::check() {
        // What this test has set is not what the program asked for.
        Err(Error::Settings(_)) => Ok(()),
        other => other,
    }),
];

fn kind(call: &Call) -> &'static str {
    match call.1() {
        Ok(()) => "done",
        Err(Error::Unsupported { .. }) => "cannot",
        Err(Error::NotInstalled) => "not installed",
        Err(Error::Refused { .. }) => "refused",
        Err(Error::Settings(_)) => "settings",
        Err(_) => "another error",
    }
}

fn kinds() -> [&'static str; CALLS.len()] {
    CALLS.each_ref().map(kind)
}

/// What the call was answered that `ALLOCANARY_FIRST` numbers.
static FIRST: OnceLock<&str> = OnceLock::new();
/// What a call was answered before the hook of `install!`.
static BEFORE: OnceLock<&str> = OnceLock::new();

extern "C" fn before_the_hook() {
    BEFORE.get_or_init(|| kind(&CALLS[1]));
}

/// After the hook of `install!`, before the allocators' own constructors, Rust's, and `main`.
extern "C" fn first_thing() {
    // SAFETY: runs before `main`.
    let number = unsafe { sys::variable(c"ALLOCANARY_FIRST") }.and_then(sys::first_number);
    if let Some(call) = number.and_then(|number| CALLS.get(number as usize)) {
        FIRST.get_or_init(|| kind(call));
    }
}

#[used]
#[unsafe(link_section = ".init_array.00001")]
static BEFORE_THE_HOOK: extern "C" fn() = before_the_hook;
#[used]
#[unsafe(link_section = ".init_array.00091")]
static FIRST_THING: extern "C" fn() = first_thing;

/// Runs `a_child` in a process of its own; what it said.
fn child(moment: &str, first: &str) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "moments::a_child", "--ignored", "--nocapture"])
        .envs([("ALLOCANARY_MOMENT", moment), ("ALLOCANARY_FIRST", first)])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{moment} {first}: {:?}\n{text}{errors}", output.status);
    text.lines().filter_map(|line| line.strip_prefix("said ")).map(str::to_string).collect()
}

#[test]
#[ignore = "run by the others as a child"]
fn a_child() {
    // SAFETY: a signal that ends this process, should a call never come back.
    unsafe { libc::alarm(120) };
    let said = match std::env::var("ALLOCANARY_MOMENT").unwrap().as_str() {
        "plain" => kinds().join(","),
        "first" => FIRST.get().expect("the constructor ran").to_string(),
        "fork" => forked(),
        "exit" => exiting(),
        "threads" => many_threads(),
        moment => panic!("no such moment: {moment}"),
    };
    println!("\nsaid {said}");
}

#[test]
fn before_the_hook_nothing_is_installed_and_nothing_breaks() {
    assert_eq!(BEFORE.get(), Some(&"not installed"));
    assert_ne!(tuning::flush_thread_cache(), Err(Error::NotInstalled));
}

#[test]
fn each_call_may_be_the_first_use_of_the_allocator() {
    let plain = child("plain", "").remove(0);
    for (number, wanted) in plain.split(',').enumerate() {
        assert!(["done", "cannot"].contains(&wanted), "{}: {wanted}", CALLS[number].0);
        assert_eq!(child("first", &number.to_string()), [wanted], "{}", CALLS[number].0);
    }
}

#[test]
fn calls_come_back_after_a_fork_in_the_midst_of_others() {
    assert_eq!(child("fork", ""), ["20 children"]);
}

#[test]
fn calls_come_back_while_threads_exit() {
    assert_eq!(child("exit", ""), ["16 ends"]);
}

#[test]
fn calls_come_back_from_many_threads_at_once() {
    assert_eq!(child("threads", ""), ["80 rounds"]);
}

fn forked() -> String {
    let wanted = kinds();
    let stop = AtomicBool::new(false);
    let children = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    tuning::statistics().unwrap();
                    std::hint::black_box(vec![1_u8; 100_000]);
                }
            });
        }
        let fine = |_: &u32| {
            // SAFETY: the child calls the allocator, which must survive a fork, and ends without running anything else.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: alarms are not inherited; ends a child that hangs.
                unsafe { libc::alarm(30) };
                let same = kinds() == wanted && std::hint::black_box(vec![7_u8; 1 << 20])[99] == 7;
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(i32::from(!same)) };
            }
            let mut status = -1;
            // SAFETY: waits for the child that was just made.
            unsafe { libc::waitpid(child, &mut status, 0) };
            status == 0
        };
        let children = (0..20).filter(fine).count();
        stop.store(true, Ordering::Relaxed);
        children
    });
    format!("{children} children")
}

fn exiting() -> String {
    static ENDS: AtomicU32 = AtomicU32::new(0);
    fn end() {
        // A cache that is gone cannot be flushed, and that is an answer as well.
        let answered = kinds().iter().all(|kind| *kind != "not installed");
        ENDS.fetch_add(u32::from(answered), Ordering::Relaxed);
    }
    struct AtExit;
    impl Drop for AtExit {
        fn drop(&mut self) {
            end();
        }
    }
    thread_local!(static AT_EXIT: AtExit = const { AtExit });
    extern "C" fn last(_: *mut libc::c_void) {
        end();
    }
    // Its destructor runs after Rust's, and after that of a key which the allocator made earlier.
    let mut key = 0;
    // SAFETY: the key is written before it is used, and the destructor takes anything.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(last)) }, 0);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                // SAFETY: the key is valid, and the value is never followed.
                unsafe { libc::pthread_setspecific(key, std::ptr::dangling::<u8>().cast()) };
                AT_EXIT.with(|_| ());
                std::hint::black_box(vec![1_u8; 1000]);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    format!("{} ends", ENDS.load(Ordering::Relaxed))
}

fn many_threads() -> String {
    let wanted = kinds();
    let rounds = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    rounds.fetch_add(u32::from(kinds() == wanted), Ordering::Relaxed);
                }
            });
        }
    });
    format!("{} rounds", rounds.load(Ordering::Relaxed))
}
