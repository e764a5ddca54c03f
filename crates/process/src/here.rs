//! Opens what a request names, with the rights of this process. The reply is a descriptor or a text.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use allocanary_sys::proc::handed_back::{epoll_data, timer_data};
use allocanary_sys::proc::pids::tids;
use allocanary_sys::sys::read_whole;

use crate::file::{self, Opened};
use crate::living::{self, or_living};
use crate::what::{BrokerReply, BrokerRequest, HandedBack, HostFile, ProcFile, ProcessThread, ThreadWait};

/// The folder where distributions put debug files.
const DEBUG: &str = "/usr/lib/debug";
/// The links from which jemalloc reads settings.
pub(crate) const LINKS: [&str; 3] = ["/etc/je_malloc.conf", "/etc/malloc.conf", "/etc/_rjem_malloc.conf"];

/// After this many words, no further epoll descriptor is read.
const MOST_WORDS: usize = 1 << 20;

/// Opens what the request names.
pub(crate) fn here(what: &BrokerRequest) -> io::Result<BrokerReply> {
    match what {
        // `stat` has the numbers of the whole process, even if its first thread has ended.
        BrokerRequest::Proc(pid, name @ ProcFile::Stat) => of_kernel(&format!("/proc/{pid}/{name}")),
        BrokerRequest::Proc(pid, name) => of_kernel(&match living::number(*pid) {
            number if number == *pid => format!("/proc/{pid}/{name}"),
            // The path goes through the process: if the thread ends meanwhile, another process may get its number.
            number => format!("/proc/{pid}/task/{number}/{name}"),
        }),
        BrokerRequest::Kernel(HostFile::Stat) => of_kernel("/proc/stat"),
        BrokerRequest::Kernel(HostFile::Pagecount) => of_kernel("/proc/kpagecount"),
        BrokerRequest::Link(pid) => {
            let path = or_living(*pid, |pid| fs::read_link(format!("/proc/{pid}/exe")))?;
            Ok(told(path.to_string_lossy().into_owned()))
        }
        BrokerRequest::Threads(pid) => as_json(&threads(*pid)?),
        BrokerRequest::Calls(pid) => as_json(&calls(*pid)?),
        BrokerRequest::HandedBack(pid) => as_json(&handed_back(*pid)),
        BrokerRequest::Executable(pid) => or_living(*pid, file::executable).map(given),
        BrokerRequest::Mapped(pid, from, to) => or_living(*pid, |pid| file::mapped(pid, *from, *to)).map(given),
        BrokerRequest::JavaRelease(pid, from, to) => or_living(*pid, |pid| java_release(pid, *from, *to)).map(given),
        BrokerRequest::Links(pid) => {
            let found = LINKS
                .iter()
                .filter_map(|path| Some((path, or_living(*pid, |pid| file::link_below_root(pid, path)).ok()?)));
            as_json(&found.collect::<Vec<_>>())
        }
        BrokerRequest::Stop(_) | BrokerRequest::Registers(_) | BrokerRequest::Continue(_) => {
            Err(io::Error::other("only the command stops a process"))
        }
        BrokerRequest::Core => Err(io::Error::other("only a child asks for the core file")),
        BrokerRequest::Library(path) => library(path.as_ref()).map(given),
        BrokerRequest::Debug(build_id) => file::debug(DEBUG.as_ref(), build_id).map(given),
    }
}

/// Opens a program or library. A core may name any file, so only ELF files are opened.
fn library(path: &std::path::Path) -> io::Result<Opened> {
    let opened = file::named(path)?;
    if opened.head(4)? != b"\x7fELF" {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no ELF file"));
    }
    Ok(opened)
}

/// A file of `/proc`.
fn of_kernel(path: &str) -> io::Result<BrokerReply> {
    Ok(BrokerReply { file: Some(File::open(path)?), ..BrokerReply::default() })
}

pub(crate) fn given(opened: Opened) -> BrokerReply {
    BrokerReply { file: Some(opened.file), stamp: Some(opened.stamp), text: String::new() }
}

fn told(text: String) -> BrokerReply {
    BrokerReply { text, ..BrokerReply::default() }
}

fn as_json(value: &impl serde::Serialize) -> io::Result<BrokerReply> {
    serde_json::to_string(value).map(told).map_err(io::Error::other)
}

fn threads(pid: u32) -> io::Result<Vec<ProcessThread>> {
    let robust = |tid: u32| {
        let (mut head, mut bytes) = (0_u64, 0_usize);
        // SAFETY: the kernel writes one word to each of the two variables, which live until the call returns.
        let done = unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut bytes) };
        (done == 0 && head != 0).then_some(head)
    };
    Ok(tids(pid)?.into_iter().map(|tid| ProcessThread { tid, robust: robust(tid) }).collect())
}

fn calls(pid: u32) -> io::Result<Vec<ThreadWait>> {
    let one = |tid: u32| {
        let about = |file: &str| read_whole(format!("/proc/{pid}/task/{tid}/{file}")).unwrap_or_default();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
        ThreadWait { tid, name: text(about("comm")), call: text(about("syscall")) }
    };
    Ok(tids(pid)?.into_iter().map(one).collect())
}

/// The words of all its descriptors and timers. It is empty for a process that has none or may not be inspected.
fn handed_back(pid: u32) -> HandedBack {
    let mut found = HandedBack { timers: timer_data(&about(pid, "timers")), ..HandedBack::default() };
    let mut pipes: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        let Ok(link) = fs::read_link(entry.path()) else { continue };
        match link.to_string_lossy().as_ref() {
            "anon_inode:[eventpoll]" if found.epoll.len() < MOST_WORDS => {
                let name = entry.file_name();
                found.epoll.extend(epoll_data(&about(pid, &format!("fdinfo/{}", name.to_string_lossy()))));
            }
            path if path.starts_with("pipe:") => pipes.push(link),
            _ => {}
        }
    }
    pipes.sort_unstable();
    found.pipes = pipes.chunk_by(|one, other| one == other).filter(|ends| ends.len() > 1).count() as u64;
    found
}

fn about(pid: u32, file: &str) -> Vec<u8> {
    read_whole(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// Opens `HOME/release` of a Java runtime, whose mapping is of `HOME/lib/server/libjvm.so`.
fn java_release(pid: u32, from: u64, to: u64) -> io::Result<Opened> {
    let mapping = file::mapping(pid, from, to)?;
    let home = std::path::Path::new(&mapping.name).ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
    file::below_root(pid, &home.join("release").to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_a_process_gave_the_kernel_is_told() {
        const DATA: u64 = 0x5555_1234_5670;
        // SAFETY: a new descriptor, which lives until this process ends.
        let epoll = unsafe { libc::epoll_create1(0) };
        let (reads, _writes) = std::io::pipe().unwrap();
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: DATA };
        // SAFETY: two descriptors that are open, and an event that lives until the call returns.
        assert_eq!(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, reads.as_raw_fd(), &raw mut event) }, 0);
        let found = handed_back(std::process::id());
        assert!(found.epoll.contains(&DATA) && found.pipes >= 1, "{found:?}");
        assert_eq!(handed_back(0x3fff_ffff), HandedBack::default());
    }
}
