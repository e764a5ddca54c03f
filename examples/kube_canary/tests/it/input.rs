//! Unusual input for a canary: its own address as a peer, ports that the kernel chooses, peers files that are not regular
//! files, a standard error that cannot be written to, and missing rights.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

use crate::canary::{Canary, command, ended_within, until};
use allocanary_testing::ports::free_port;

/// A folder with a peers file in it.
fn peers_file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers");
    fs::write(&path, text).unwrap();
    (folder, path)
}

/// The flags of a canary that probes by UDP and disturbs no other canary.
fn by_udp(path: &Path) -> [String; 3] {
    [format!("--peers-file={}", path.display()), "--protocol=udp".into(), format!("--udp-port={}", free_port())]
}

/// The first line of a process on its standard error; empty if it writes none within a minute.
fn first_line(child: &mut Child) -> String {
    let stderr = child.stderr.take().unwrap();
    let (line_of, line) = mpsc::channel();
    std::thread::spawn(move || BufReader::new(stderr).lines().next().map(|line| line_of.send(line)));
    line.recv_timeout(Duration::from_secs(60)).map(Result::unwrap).unwrap_or_default()
}

fn make_fifo(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

#[test]
fn a_standard_error_that_is_full_ends_nothing() {
    let (folder, path) = peers_file("127.0.1.1 a\n");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let canary = Canary::start(command(&[]).args(by_udp(&path)).stderr(full));
    fs::rename(&path, folder.path().join("away")).unwrap();
    until("the file is missed", || canary.failures() > 0);
    fs::write(&path, "127.0.1.2 b\n").unwrap();
    until("the file is followed again", || canary.probed() == ["127.0.1.2"]);
    assert!(canary.sum("probes_sent_total", "") > 0.0);
}

#[test]
fn a_start_that_cannot_be_told_of_has_its_code_all_the_same() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = command(&["--peers-file=/nowhere/peers"]).stderr(full).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn one_file_for_all_nodes_makes_no_canary_probe_itself() {
    let (_folder, path) = peers_file("127.0.1.1 a\n127.0.1.2 b\n127.0.1.3 c\n127.0.1.4 d\n127.0.1.5 e\n");
    let own = ["--pod-ip=127.0.1.1", "--peers-max=3"];
    let canary = Canary::start(command(&own).args(by_udp(&path)));
    let probed = canary.probed();
    assert!(probed.len() == 3 && !probed.iter().any(|peer| peer == "127.0.1.1"), "{probed:?}");
    fs::write(&path, "127.0.1.1 a\n127.0.1.2 b\n").unwrap();
    until("the file is read again", || canary.probed() == ["127.0.1.2"]);
    // The same with flags.
    let port = format!("--udp-port={}", free_port());
    let flags = ["--peer=127.0.1.1", "--peer=127.0.1.2", "--pod-ip=127.0.1.1", "--protocol=udp", &port];
    assert_eq!(Canary::start(&mut command(&flags)).probed(), ["127.0.1.2"]);
    assert_eq!(Canary::start(command(&flags).arg("--probe-self")).probed(), ["127.0.1.1", "127.0.1.2"]);
}

#[test]
fn a_list_of_nobody_but_itself_is_said() {
    let (_folder, path) = peers_file("127.0.1.1 a\n127.0.1.2 b\n");
    let own = ["--pod-ip=127.0.1.1,127.0.1.2"];
    for (list, wanted) in [("--peer=127.0.1.1".into(), "flags: all 1"), (by_udp(&path)[0].clone(), "file: all 2")] {
        let port = format!("--udp-port={}", free_port());
        let mut canary = Canary::start(command(&own).args([&list, "--protocol=udp", &port]).stderr(Stdio::piped()));
        assert_eq!(canary.probed(), [""; 0]);
        canary.signal(libc::SIGTERM);
        let said = first_line(&mut canary.child);
        assert!(said.contains(wanted) && said.contains("--probe-self"), "{said}");
    }
}

#[test]
fn a_port_that_the_kernel_chose_is_said_and_is_that_of_the_peers() {
    let port = format!("--udp-port={}", free_port());
    let flags =
        ["--listen=0.0.0.0:0", "--protocol=tcp,http", "--peer=127.0.1.1=b", "--peer=127.0.1.2", "--node=a", &port];
    let mut child = command(&flags).stderr(Stdio::piped()).spawn().unwrap();
    let said = first_line(&mut child);
    let chosen = said.trim_end().rsplit(':').next().and_then(|port| port.trim_end_matches('/').parse::<u16>().ok());
    let Some(chosen) = chosen else {
        let _ = child.kill();
        panic!("wanted a line with the port, found `{said}`");
    };
    let canary = Canary::serving(child, ([127, 0, 0, 1], chosen).into());
    until("TCP is answered", || canary.sum("replies_total", "proto=\"tcp\"") > 0.0);
    until("HTTP is answered", || canary.sum("replies_total", "proto=\"http\"") > 0.0);
    assert_eq!(canary.sum("lost_total", ""), 0.0);
    until("the peer without a name has told its name", || {
        canary.json("/peers")["peers"].as_array().unwrap().iter().any(|peer| peer["node"] == "a")
    });
    let mesh = canary.json("/mesh");
    let nodes = mesh["nodes"].as_array().unwrap();
    assert!(nodes.iter().any(|node| node["name"] == "b" && node["problem"].is_null()), "{mesh}");
}

#[test]
fn the_peer_of_a_canary_without_flags_is_where_its_web_server_is() {
    for listen in ["127.0.0.1", "127.0.0.9", "0.0.0.0"] {
        let (port, udp) = (free_port(), format!("--udp-port={}", free_port()));
        let at = format!("--listen={listen}:{port}");
        let child = command(&[&at, "--protocol=tcp,http", "--timeout=8s", &udp]).spawn().unwrap();
        let served = if listen == "0.0.0.0" { "127.0.0.1" } else { listen };
        let canary = Canary::serving(child, format!("{served}:{port}").parse().unwrap());
        assert_eq!(canary.probed(), [served]);
        until("TCP is answered", || canary.sum("replies_total", "proto=\"tcp\"") > 0.0);
        until("HTTP is answered", || canary.sum("replies_total", "proto=\"http\"") > 0.0);
        assert_eq!(canary.sum("lost_total", ""), 0.0, "{listen}");
    }
}

#[test]
fn what_is_no_file_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    for (path, found) in [(&*fifo, "a FIFO"), (Path::new("/dev/zero"), "a device"), (folder.path(), "a folder")] {
        let mut command = command(&["--listen=127.0.0.1:0"]);
        command.args(by_udp(path)).stderr(Stdio::piped());
        // A limit of memory, in case the canary reads the file without end.
        let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        before_exec(&mut command, move || {
            // SAFETY: one system call, with a value that the closure owns.
            done(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) })
        });
        let mut child = command.spawn().unwrap();
        let ended = ended_within(&mut child, Duration::from_secs(60));
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(ended.map(|status| status.code()), Some(Some(1)), "{}: {text}", path.display());
        assert!(text.contains(found) && text.contains(&*path.to_string_lossy()), "{text}");
    }
}

#[test]
fn a_file_that_becomes_a_fifo_is_a_failure_and_no_end_of_everything() {
    let (folder, path) = peers_file("127.0.1.1 a\n");
    let mut canary = Canary::start(command(&[]).args(by_udp(&path)).stderr(Stdio::null()));
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    fs::rename(&fifo, &path).unwrap();
    until("the file is missed", || canary.failures() > 0);
    assert_eq!(canary.probed(), ["127.0.1.1"], "the last known peers are kept");
    canary.signal(libc::SIGTERM);
    let ended = ended_within(&mut canary.child, Duration::from_secs(60));
    assert_eq!(ended.map(|status| status.code()), Some(Some(0)));
}

#[test]
fn a_host_without_resolv_conf_is_no_mistake_of_the_command_line() {
    let mut command = command(&["--peers-dns=canaries.test.", "--listen=127.0.0.1:0", "--protocol=udp"]);
    command.arg(format!("--udp-port={}", free_port()));
    let (none, etc, tmpfs) = (c"none".as_ptr() as usize, c"/etc".as_ptr() as usize, c"tmpfs".as_ptr() as usize);
    let root = c"/".as_ptr() as usize;
    before_exec(&mut command, move || {
        let (at, null) = (|text: usize| text as *const libc::c_char, std::ptr::null());
        // SAFETY: system calls that change only this process, with constant texts.
        unsafe {
            done(libc::unshare(libc::CLONE_NEWNS))?;
            done(libc::mount(at(none), at(root), null, libc::MS_REC | libc::MS_PRIVATE, null.cast()))?;
            done(libc::mount(at(none), at(etc), at(tmpfs), 0, null.cast()))
        }
    });
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            allocanary_testing::skipped::skipped(format_args!("it takes root: {error}"));
            return;
        }
        output => output.unwrap(),
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains("/etc/resolv.conf") && text.contains("--peers-dns"), "{text}");
}

/// Takes away from the command everything that permits ICMP: the capability, and every group that a range of groups can
/// name. Returns false if that is not possible.
fn without_icmp(command: &mut Command) -> bool {
    if kube_canary::prober::icmp::open(false, 1).is_err() && kube_canary::prober::icmp::open(true, 1).is_err() {
        return true;
    }
    const CAP_NET_RAW: libc::c_ulong = 13;
    /// Above the maximum of net.ipv4.ping_group_range.
    const GROUP: libc::gid_t = 3_000_000_000;
    before_exec(command, || {
        // SAFETY: system calls that change only this process, without a pointer that is followed.
        unsafe {
            done(libc::prctl(libc::PR_CAPBSET_DROP, CAP_NET_RAW, 0, 0, 0))?;
            done(libc::setgroups(0, std::ptr::null()))?;
            done(libc::setresgid(GROUP, GROUP, GROUP))
        }
    });
    // SAFETY: it only returns the user's number.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn without_a_right_to_icmp_it_probes_by_udp_and_says_why() {
    let port = format!("--udp-port={}", free_port());
    let mut canary = command(&["--peer=127.0.1.1", &port]);
    if !without_icmp(&mut canary) {
        allocanary_testing::skipped::skipped("ICMP is permitted, and only root can give it up");
        return;
    }
    let mut canary = Canary::start(canary.stderr(Stdio::piped()));
    until("UDP is answered", || canary.sum("replies_total", "proto=\"udp\"") > 0.0);
    assert_eq!(canary.sum("probes_sent_total", "proto=\"icmp\""), 0.0);
    canary.signal(libc::SIGTERM);
    let said = first_line(&mut canary.child);
    assert!(said.contains("probing by UDP") && said.contains("ICMP is not permitted"), "{said}");
}

#[test]
fn who_asks_for_icmp_without_a_right_to_it_is_told_of_both_ways() {
    let port = format!("--udp-port={}", free_port());
    let mut command = command(&["--protocol=icmp", "--listen=127.0.0.1:0", &port]);
    if !without_icmp(&mut command) {
        allocanary_testing::skipped::skipped("ICMP is permitted, and only root can give it up");
        return;
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains("net.ipv4.ping_group_range") && text.contains("CAP_NET_RAW"), "{text}");
}

/// Runs between fork and exec, where nothing may be allocated.
fn before_exec(command: &mut Command, what: impl FnMut() -> io::Result<()> + Send + Sync + 'static) {
    // SAFETY: every closure that is passed here only makes system calls.
    unsafe { command.pre_exec(what) };
}

fn done(returned: i32) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
