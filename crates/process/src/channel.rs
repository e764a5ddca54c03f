//! The child's side of the connection with the command. Both send lines of text, and a line of the command can come with a descriptor.
//!
//! The child's standard input is a socket, because descriptors can come only through a socket. When the child writes a line that begins
//! with [`WISH`], it asks the command for something. The next line of the command is the reply.

use std::fs::File;
use std::io::{self, IoSliceMut, Write, stdin, stdout};
use std::mem::MaybeUninit;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::{Deserialize, Serialize};

use crate::file::Stamp;
use crate::what::{BrokerReply, BrokerRequest};

/// The first character of a line by which the child asks for something. Other lines are answers.
pub(crate) const WISH: char = '?';

/// The command's reply when the child asks for something. The descriptor comes with the line.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// The reason if there is no descriptor and no text: the number of the kernel's error, and its text.
    pub error: Option<(Option<i32>, String)>,
    /// The attributes of the file.
    pub stamp: Option<Stamp>,
    /// A text.
    pub text: String,
}

/// The child's end of the connection.
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
