//! The functions by which all code gets data of another process: a descriptor, or a text. In the command they open it at once. In the child
//! without rights they ask the command.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use allocanary_sys::proc::ProcStatus;

use crate::channel::Channel;
use crate::file::{Opened, Stamp};
use crate::here::here;
use crate::what::{BrokerReply, BrokerRequest, HandedBack, HostFile, ProcFile, ProcessThread, ThreadWait};

/// The child's connection to the command; empty in the command.
static COMMAND: OnceLock<&'static Mutex<Channel>> = OnceLock::new();

/// From now on, [`get`] asks the command for everything.
pub fn serve_by(channel: &'static Mutex<Channel>) {
    let _ = COMMAND.set(channel);
}

/// Opens what is requested, or in a child asks the command for it.
pub fn get(what: &BrokerRequest) -> io::Result<BrokerReply> {
    match COMMAND.get() {
        None => here(what),
        Some(channel) => channel.lock().unwrap_or_else(PoisonError::into_inner).ask(what),
    }
}

/// Whether this is a child that asks the command.
pub(crate) fn asks() -> bool {
    COMMAND.get().is_some()
}

/// The resident bytes of a process, by the kernel's count.
pub(crate) fn resident(pid: u32) -> u64 {
    status(pid).ok().and_then(|status| status.resident).unwrap_or(0)
}

/// Opens a file of the kernel about a process.
pub fn open(pid: u32, name: ProcFile) -> io::Result<File> {
    file(get(&BrokerRequest::Proc(pid, name))?)
}

/// The whole text of a file of the kernel about a process.
pub fn text(pid: u32, name: ProcFile) -> io::Result<Vec<u8>> {
    allocanary_sys::sys::read_whole_of(&mut open(pid, name)?)
}

/// The numbers in `/proc/PID/status`.
pub fn status(pid: u32) -> io::Result<ProcStatus> {
    Ok(ProcStatus::parse(&text(pid, ProcFile::Status)?))
}

/// Opens a file of the kernel about this host.
pub fn kernel(which: HostFile) -> io::Result<File> {
    file(get(&BrokerRequest::Kernel(which))?)
}

/// The threads of a process.
pub fn threads(pid: u32) -> io::Result<Vec<ProcessThread>> {
    parsed(&get(&BrokerRequest::Threads(pid))?.text)
}

/// The names of a process's threads, and the system calls in which they wait.
pub fn calls(pid: u32) -> io::Result<Vec<ThreadWait>> {
    parsed(&get(&BrokerRequest::Calls(pid))?.text)
}

/// The words that a process gave to the kernel and gets back later.
pub fn handed_back(pid: u32) -> io::Result<HandedBack> {
    parsed(&get(&BrokerRequest::HandedBack(pid))?.text)
}

/// The path of the program that a process runs, as the kernel writes it.
pub fn link(pid: u32) -> io::Result<String> {
    Ok(get(&BrokerRequest::Link(pid))?.text)
}

/// The links from which jemalloc reads settings, below the root of a process: their paths, and their texts. `None` is a
/// file in the place of a link.
pub fn links(pid: u32) -> io::Result<Vec<(String, Option<String>)>> {
    parsed(&get(&BrokerRequest::Links(pid))?.text)
}

/// Opens a regular file.
pub fn file_of(what: &BrokerRequest) -> io::Result<Opened> {
    let mut given = get(what)?;
    let stamp: Stamp = given.stamp.take().ok_or(io::ErrorKind::InvalidData)?;
    Ok(Opened { file: file(given)?, stamp })
}

/// Opens the core file that the user has named.
pub fn core(path: &Path) -> io::Result<Opened> {
    if asks() { file_of(&BrokerRequest::Core) } else { crate::file::of_host(path) }
}

fn file(given: BrokerReply) -> io::Result<File> {
    given.file.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

pub(crate) fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> io::Result<T> {
    serde_json::from_str(text).map_err(io::Error::other)
}
