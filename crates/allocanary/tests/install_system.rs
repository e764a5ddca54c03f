//! `install!(system, ...)` in a process of its own.
#![cfg(target_env = "gnu")]

use std::process::Command;

use allocanary::tuning::{self, Error, Pages};

mod idling;
mod moments;

allocanary::install!(system, arena_max = per_cpu(2), top_pad = 65536);

fn report(variables: &[(&str, &str)]) -> String {
    run("report_of_a_child", variables)
}

fn run(test: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "run by the others as a child"]
fn report_of_a_child() {
    println!("arenas {:?} check {:?}", tuning::most_arenas().unwrap(), tuning::check());
}

/// What this process's children cost so far; 0 where it had none.
fn faults_of_children() -> i64 {
    // SAFETY: all-zero bytes are a rusage, and the kernel writes a whole one.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage.ru_minflt
    }
}

#[test]
#[ignore = "run by the others as a child"]
fn loaders_of_a_child() {
    let before = faults_of_children();
    tuning::most_arenas().unwrap();
    let once = faults_of_children();
    let again = (0..50).map(|_| tuning::most_arenas().unwrap()).all(|most| most == tuning::most_arenas().unwrap());
    println!("\nfirst {} then {again} {}", once > before, faults_of_children() > once);
}

#[test]
fn the_loader_is_started_once_at_most() {
    let loaders = |variables: &[(&str, &str)]| run("loaders_of_a_child", variables);
    let asked = loaders(&[("GLIBC_TUNABLES", "glibc.malloc.arena_max=7")]);
    assert!(asked.contains("first true then true false"), "{asked}");
    let known = loaders(&[]);
    assert!(known.contains("first false then true false"), "what install! set need not be asked for: {known}");
}

#[test]
fn arenas_follow_the_processors_and_threads_keep_to_them() {
    let most = allocanary::container::Cpus::here().count() * 2;
    assert_eq!(tuning::most_arenas(), Ok(Some(most)));
    assert_eq!(tuning::settings().unwrap()["top_pad"], "65536");
    tuning::check().unwrap();
    let gate = std::sync::Barrier::new(17);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let held = vec![1_u8; 50_000];
                gate.wait();
                gate.wait();
                drop(held);
            });
        }
        gate.wait();
        let used = tuning::statistics().unwrap().counters.arenas.unwrap();
        assert!(used <= u64::from(most), "{used} arenas under a cap of {most}");
        gate.wait();
    });
}

#[test]
fn the_environment_wins() {
    let tunables = report(&[("GLIBC_TUNABLES", "glibc.rtld.nns=4:glibc.malloc.arena_max=7")]);
    assert!(tunables.contains("arenas Some(7) check Ok(())"), "{tunables}");
    let wrong = report(&[("GLIBC_TUNABLES", "glibc.malloc.arena_mx=7:glibc.malloc.tcache_max=1MiB")]);
    assert!(wrong.contains("system has no setting `arena_mx`"), "{wrong}");
    assert!(wrong.contains("tcache_max: wanted a size from 0 to 1032 bytes"), "{wrong}");
}

#[test]
fn what_glibc_cannot_do_is_an_error() {
    let unsupported = [
        tuning::bind_current_thread(0).unwrap_err(),
        tuning::set_thread_cache(false).unwrap_err(),
        tuning::set_thread_cache_max(1).unwrap_err(),
        tuning::flush_thread_cache().unwrap_err(),
        tuning::set_decay(Pages::Dirty, None).unwrap_err(),
        tuning::decay(Pages::Muzzy).unwrap_err(),
        tuning::set_background_threads(true).unwrap_err(),
    ];
    for error in unsupported {
        assert!(matches!(error, Error::Unsupported { allocator: "system", .. }), "{error}");
        assert!(error.to_string().starts_with("system: "));
    }
    tuning::purge().unwrap();
}
