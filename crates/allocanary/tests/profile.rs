//! A service that samples itself: the example, asked by Go's pprof over HTTP, and its table, read from outside as `who PID` does.

use std::net::TcpListener;
use std::process::Command;

use allocanary_heap::LiveProcess;
use allocanary_testing::skipped::skipped;

#[allow(dead_code, reason = "the example's main is not the test's")]
#[path = "../examples/pprof_heap.rs"]
mod service;

/// The figure in MB of the line with this name.
fn megabytes(said: &str, name: &str) -> f64 {
    let line = said.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {said}"));
    let cumulative = line.split_whitespace().nth(3).unwrap_or_default();
    cumulative.trim_end_matches("MB").parse().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn gos_pprof_reads_the_heap_of_a_service() {
    assert!(allocanary::tuning::check().is_ok() && allocanary::profile::is_on());
    let kept = (service::cached_answers(), service::known_names());
    // What is gone is not in use.
    drop(std::thread::spawn(service::cached_answers).join().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/debug/pprof/heap", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().for_each(|stream| service::answer(stream.unwrap()).unwrap()));
    let folder = tempfile::tempdir().unwrap();
    let run = |kind: &str| {
        let mut go = Command::new("go");
        go.args(["tool", "pprof", "-top", "-cum", "-unit=MB", &format!("-sample_index={kind}"), &url]);
        go.env("PPROF_TMPDIR", folder.path()).output()
    };
    let Ok(output) = run("inuse_space") else { return skipped("Go is not installed") };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("Type: inuse_space"), "{said}");
    // 24.6 and 8.2 MB and what maps and vectors need besides; bounds of 0.0001 % of runs.
    let [answers, names] =
        ["profile::service::cached_answers", "profile::service::known_names"].map(|name| megabytes(&said, name));
    assert!((7.0..60.0).contains(&answers) && (0.5..40.0).contains(&names) && answers > names, "{said}");
    assert!(said.contains("<alloc::raw_vec::"), "names are whole: {said}");
    assert!(!said.contains("allocanary_sampler") && !said.contains("__rust_alloc"), "the sampler is no caller: {said}");
    let ever = text(&run("alloc_space").unwrap().stdout);
    assert!(megabytes(&ever, "profile::service::cached_answers") > answers * 1.2, "{ever}");
    drop(kept);
}

#[test]
fn the_table_of_a_service_is_found_from_outside() {
    let kept = std::hint::black_box(vec![7_u8; 32 << 20]);
    let found = allocanary_profile::reader::read(&LiveProcess::open(std::process::id()).unwrap()).unwrap();
    let sample = found.samples.iter().find(|sample| sample.address == kept.as_ptr().addr() as u64);
    let sample = sample.expect("a block of many mean distances is always sampled");
    assert_eq!((sample.size, found.mean), (32 << 20, 512 << 10));
    assert!(found.stack(sample.frame).len() > 2);
    drop(kept);
    let address = sample.address;
    let after = allocanary_profile::reader::read(&LiveProcess::open(std::process::id()).unwrap()).unwrap();
    assert!(after.samples.iter().all(|sample| sample.address != address || sample.size != 32 << 20));
}

/// Ends the process at the calls that the walk of a stack may make, in this thread and those that it starts.
fn filter() {
    let [load, equal, end] = [
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    ];
    let line = |code: u32, jt, jf, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut lines = [
        line(load, 0, 0, 0),
        line(equal, 1, 0, libc::SYS_process_vm_readv as u32),
        line(equal, 0, 1, libc::SYS_openat as u32),
        line(end, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        line(end, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    // SAFETY: the kernel reads the filter during the call.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    assert!(set, "{}", std::io::Error::last_os_error());
}

/// The variable with which the test below runs this one, in a process of its own.
const IN_A_FILTER: &str = "IN_A_FILTER";

#[test]
fn a_service_in_a_filter() {
    let Ok(told) = std::env::var(IN_A_FILTER) else { return };
    if told == "told" {
        allocanary::profile::before_filter();
    }
    filter();
    // A new thread does not know the bounds of its stack: its first walk reads the mappings.
    let kept = std::thread::spawn(|| (0..64).map(|at| vec![at as u8; 1 << 20]).collect::<Vec<_>>()).join().unwrap();
    let error = allocanary::profile::pprof().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(kept.len() == 64 && error.contains("has given itself a filter of system calls"), "{error}");
}

#[test]
fn a_service_that_tells_of_its_filter_lives_on() {
    let run = |told: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "a_service_in_a_filter", "--test-threads=1"]).env(IN_A_FILTER, told);
        child.output().unwrap()
    };
    let told = run("told");
    assert!(told.status.success(), "{told:?}");
    // Where stacks are walked, the filter ends one that does not tell.
    if cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        use std::os::unix::process::ExitStatusExt;
        let untold = run("not told");
        assert_eq!(untold.status.signal(), Some(libc::SIGSYS), "{untold:?}");
    }
}
