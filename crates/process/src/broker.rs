//! The command's side: it opens what the child asks for, and returns a descriptor or a text. A hostile process may control the child. So
//! the child gets only what belongs to the processes that the command's request is about.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::{Deserialize, Serialize};

use crate::channel::Reply;
use crate::file;
use crate::here::{given, here};
use crate::stopped::Held;
use crate::what::{BrokerReply, BrokerRequest, ProcFile};

/// The subject of a request. The child may ask only for things that belong to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSubject {
    /// Processes.
    pub pids: Vec<u32>,
    /// A core file.
    pub core: Option<PathBuf>,
    /// Whether a thread of the process is stopped or may be stopped soon. The child may then ask only for the mappings: a file system may
    /// not answer, and nothing may take long.
    pub is_stopped: bool,
}

impl RequestSubject {
    /// One process.
    pub fn process(pid: u32) -> RequestSubject {
        RequestSubject { pids: vec![pid], ..RequestSubject::default() }
    }

    /// A process that is, or may be, stopped.
    pub fn stopped(pid: u32) -> RequestSubject {
        RequestSubject { is_stopped: true, ..RequestSubject::process(pid) }
    }
}

/// Decides what a child may ask for.
#[derive(Clone, Debug, Default)]
pub struct Broker(RequestSubject);

/// The most things that a child may ask for during one request. A process with 65,000 mapped files needs about as many.
pub(crate) const MOST: u32 = 200_000;

impl Broker {
    /// Makes a broker for a child that works on a request with this subject.
    pub fn of(about: &RequestSubject) -> Broker {
        Broker(about.clone())
    }

    /// Answers what the child asks for, if the child may have it.
    pub(crate) fn give(&self, wish: &str, held: &mut Held) -> io::Result<BrokerReply> {
        let what: BrokerRequest = serde_json::from_str(wish).map_err(io::Error::other)?;
        let RequestSubject { pids, core, is_stopped } = &self.0;
        let may = match (&what, what.pid()) {
            (_, Some(pid)) => pids.contains(&pid),
            (BrokerRequest::Core | BrokerRequest::Library(_), _) => core.is_some(),
            _ => true,
        };
        if !may {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if *is_stopped && !matches!(what, BrokerRequest::Proc(_, ProcFile::Maps)) {
            return Err(io::Error::other("nothing is opened while a thread of the process may be stopped"));
        }
        if let (BrokerRequest::Core, Some(core)) = (&what, core) {
            return file::of_host(core).map(given);
        }
        held.give(&what).unwrap_or_else(|| here(&what))
    }
}

/// Sends the reply to the child: what it asked for, or the error.
pub(crate) fn send(socket: &UnixStream, given: io::Result<BrokerReply>) -> io::Result<()> {
    let (reply, file) = match given {
        Ok(given) => (Reply { stamp: given.stamp, text: given.text, error: None }, given.file),
        Err(error) => (Reply { error: Some((error.raw_os_error(), error.to_string())), ..Reply::default() }, None),
    };
    let mut line = serde_json::to_string(&reply).map_err(io::Error::other)?;
    line.push('\n');
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let files = file.as_ref().map(|file| [file.as_fd()]);
    if let Some(files) = &files {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let mut rest = line.as_bytes();
    while !rest.is_empty() {
        let sent = sendmsg(socket, &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL)?;
        // The descriptor was sent with the first byte, so it must not be sent again.
        control.clear();
        rest = &rest[sent..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_child_was_asked_about_is_given() {
        let own = std::process::id();
        let wish = |what: &BrokerRequest| serde_json::to_string(what).unwrap();
        let broker = Broker::of(&RequestSubject::process(own));
        assert!(
            broker.give(&wish(&BrokerRequest::Proc(own, ProcFile::Maps)), &mut Held::default()).unwrap().file.is_some()
        );
        let denied = |what: &BrokerRequest| broker.give(&wish(what), &mut Held::default()).unwrap_err().kind();
        assert_eq!(denied(&BrokerRequest::Proc(1, ProcFile::Maps)), io::ErrorKind::PermissionDenied);
        assert_eq!(denied(&BrokerRequest::Core), io::ErrorKind::PermissionDenied);
        assert_eq!(denied(&BrokerRequest::Library("/bin/sh".into())), io::ErrorKind::PermissionDenied);
        assert!(broker.give("/etc/shadow", &mut Held::default()).is_err());
        let stopped = Broker::of(&RequestSubject::stopped(own));
        for what in [BrokerRequest::Executable(own), BrokerRequest::Calls(own), BrokerRequest::Stop(own)] {
            let refused = stopped.give(&wish(&what), &mut Held::default()).unwrap_err().to_string();
            assert!(refused.contains("may be stopped"), "{what:?}: {refused}");
        }
        assert!(broker.give(&wish(&BrokerRequest::Executable(own)), &mut Held::default()).is_ok());
        assert!(stopped.give(&wish(&BrokerRequest::Proc(own, ProcFile::Maps)), &mut Held::default()).is_ok());
    }
}
