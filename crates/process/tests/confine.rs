//! What a child can still do after it has given up its rights. The test starts itself again as such a child, which tries
//! what an attacker would try.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// This variable makes the test the child.
const CHILD: &str = "ALLOCANARY_TEST_CONFINED";

#[test]
fn a_confined_process_can_compute_and_nothing_else() {
    if std::env::var_os(CHILD).is_some() {
        child();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args(["--exact", "a_confined_process_can_compute_and_nothing_else", "--nocapture"]);
    let mut child = command.env(CHILD, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.ends_with("ready")));
    // The thread that has given up its rights: libtest's main thread waits for it.
    let of_thread = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).unwrap();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().map(Result::unwrap);
    let status = tasks.map(of_thread).find(|status| status.contains("\nSeccomp:\t2")).expect("a filter");
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_string();
    assert_eq!((field("CapEff:"), field("CapPrm:")), ("0000000000000000".into(), "0000000000000000".into()));
    assert_eq!(field("NoNewPrivs:"), "1");
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } == 0 {
        assert_eq!(
            (field("Uid:"), field("Gid:")),
            ("65534\t65534\t65534\t65534".into(), "65534\t65534\t65534\t65534".into())
        );
        assert_eq!(field("Groups:"), "");
    }
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let tried: Vec<String> = lines.by_ref().take_while(|line| line != "end").collect();
    let wrong: Vec<&String> = tried.iter().filter(|line| !line.ends_with("refused")).collect();
    assert!(wrong.is_empty() && tried.len() == 16, "{tried:?}");
    assert!(child.wait().unwrap().success());
}

/// Gives up its rights, says so, and tries calls.
fn child() -> ! {
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    allocanary_process::confine::confine().unwrap();
    say("ready");
    let mut go = [0; 3];
    // SAFETY: three bytes of a buffer that lives until the call returns.
    unsafe { libc::read(0, go.as_mut_ptr().cast(), 3) };
    // Closed with all others.
    let closed = std::os::fd::AsRawFd::as_raw_fd(&file);
    std::mem::forget(file);
    let path = c"/etc/passwd".as_ptr();
    let (readable, writable) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: none of these calls is to succeed; paths end in NUL, and the other arguments are numbers.
    unsafe {
        tried("open", libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, 0));
        tried("openat2", libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path, 0, 0));
        tried("execve", libc::syscall(libc::SYS_execve, c"/bin/true".as_ptr(), 0, 0));
        tried("socket", libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0));
        tried("kill", libc::syscall(libc::SYS_kill, 1, 0));
        tried("tgkill of another signal", libc::syscall(libc::SYS_tgkill, std::process::id(), 1, libc::SIGKILL));
        tried("ptrace", libc::syscall(libc::SYS_ptrace, libc::PTRACE_SEIZE, 1, 0, 0));
        tried("process_vm_readv", libc::syscall(libc::SYS_process_vm_readv, 1, 0, 0, 0, 0, 0));
        tried("clone", libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0));
        tried("unlink", libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, c"/nowhere".as_ptr(), 0));
        tried("prctl", libc::syscall(libc::SYS_prctl, libc::PR_SET_DUMPABLE, 1, 0, 0, 0));
        tried("io_uring", libc::syscall(libc::SYS_io_uring_setup, 1, 0));
        tried("bpf", libc::syscall(libc::SYS_bpf, 0, 0, 0));
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let code = libc::syscall(libc::SYS_mmap, 0, 4096, readable | libc::PROT_EXEC, anonymous, -1, 0);
        tried("memory with code", code);
        tried("a mapped file", libc::syscall(libc::SYS_mmap, 0, 4096, readable, libc::MAP_PRIVATE, 0, 0));
        tried("write to another file", libc::syscall(libc::SYS_write, closed, path, 1));
        let memory = libc::syscall(libc::SYS_mmap, 0, 4096, writable, anonymous, -1, 0);
        assert_ne!(memory, -1, "it can have memory");
    }
    say("end");
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

fn tried(what: &str, result: libc::c_long) {
    let error = std::io::Error::last_os_error();
    let refused = result == -1 && error.raw_os_error() == Some(libc::EPERM);
    say(&format!("{what}: {}", if refused { "refused".to_string() } else { format!("{result}, {error}") }));
}

fn say(line: &str) {
    let line = format!("{line}\n");
    // SAFETY: writes the bytes of a text that lives until the call returns.
    unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
}
