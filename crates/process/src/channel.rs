//! The child's side of the connection. In: lines of the command, some with a descriptor. Out: lines of the child.
//!
//! The child's standard input is a socket, because descriptors come by it. A line that begins with [`WISH`] asks the
//! command for something; the line that the command writes next is what it gives.

use std::fs::File;
use std::io::{self, IoSliceMut, Write, stdin, stdout};
use std::mem::MaybeUninit;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::{Deserialize, Serialize};

use crate::file::Stamp;
use crate::what::{BrokerReply, BrokerRequest};

/// What a line of the child begins with that is no answer.
pub(crate) const WISH: char = '?';

/// What the command writes for a wish. A descriptor comes with the line.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// Why it was not given: the number of the kernel's error, and its text.
    pub error: Option<(Option<i32>, String)>,
    /// What the file system said.
    pub stamp: Option<Stamp>,
    /// A text.
    pub text: String,
}

/// The connection.
#[derive(Debug, Default)]
pub struct Channel {
    /// Bytes after the last line.
    read: Vec<u8>,
    files: Vec<File>,
}

impl Channel {
    /// The next line without its end. `None` if the command has closed the connection.
    pub fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if !self.receive()? {
                return Ok(None);
            }
        }
    }

    /// Writes a line.
    pub fn tell(&mut self, line: &str) -> io::Result<()> {
        let mut out = stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush())
    }

    /// Asks the command.
    pub(crate) fn ask(&mut self, what: &BrokerRequest) -> io::Result<BrokerReply> {
        let wish = serde_json::to_string(what).map_err(io::Error::other)?;
        self.tell(&format!("{WISH}{wish}"))?;
        self.files.clear();
        let line = self.line()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let reply: Reply = serde_json::from_str(&line).map_err(io::Error::other)?;
        match reply.error {
            Some((Some(number), _)) => Err(io::Error::from_raw_os_error(number)),
            Some((None, text)) => Err(io::Error::other(text)),
            None => Ok(BrokerReply { file: self.files.pop(), stamp: reply.stamp, text: reply.text }),
        }
    }

    /// Receives some bytes. Returns false at the end.
    fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 16 << 10];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let got = loop {
            match recvmsg(stdin(), &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                got => break got?.bytes,
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files.map(File::from));
            }
        }
        self.read.extend_from_slice(&bytes[..got]);
        Ok(got > 0)
    }
}
