//! A client that sends the given bytes, and nothing else. In: bytes to send. Out: all bytes that came back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer in its parts.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    /// The body without its compression.
    pub fn gunzipped(&self) -> String {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&self.body[..]).read_to_string(&mut text).expect("a whole gzip file");
        text
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let is = |line: &&str| line.split(':').next().is_some_and(|found| found.eq_ignore_ascii_case(name));
        self.head.lines().find(is).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }
}

/// Opens a connection. A read on it that hangs makes the test fail instead of stopping it.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream
}

/// All bytes until the server closes. A reset counts as an end.
pub fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return all,
            Ok(length) => all.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the server neither answers nor closes")
            }
            Err(_) => return all,
        }
    }
}

/// Sends one request and returns its answer.
pub fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    let mut stream = connect(address);
    let request = format!("{method} {path} HTTP/1.1\r\nhost: canary\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("the request is taken");
    parse(&until_closed(&mut stream))
}

/// Requests a page by GET.
pub fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, "GET", path, "")
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head of text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head, body: bytes[end + 4..].to_vec() }
}
