//! When a service is ready. In: a user's text. Out: a probe that says yes or not yet.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A condition on a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// A TCP port accepts connections.
    Tcp(String),
    /// A URL answers with success.
    Http {
        /// Host and port.
        at: String,
        /// The path.
        path: String,
    },
    /// A text was written.
    Line(String),
    /// A shell command succeeds.
    Command(String),
}

impl Ready {
    /// Parses `tcp:6379`, `tcp:host:6379`, `http://...`, `line:TEXT`, or else a command.
    pub fn parse(text: &str) -> Result<Ready, String> {
        let wrong = |wanted: &str| Err(format!("--ready: wanted {wanted}, found `{text}`"));
        if let Some(at) = text.strip_prefix("tcp:") {
            let at = if at.contains(':') { at.to_string() } else { format!("127.0.0.1:{at}") };
            let port = at.rsplit(':').next().unwrap_or_default();
            return match port == "{port}" || port.parse::<u16>().is_ok_and(|port| port > 0) {
                true => Ok(Ready::Tcp(at)),
                false => wrong("tcp:PORT, with a port from 1 to 65535 or {port}"),
            };
        }
        if let Some(rest) = text.strip_prefix("http://") {
            let (at, path) = rest.split_once('/').map_or((rest, String::new()), |(at, path)| (at, path.to_string()));
            let at = if at.contains(':') { at.to_string() } else { format!("{at}:80") };
            return Ok(Ready::Http { at, path: format!("/{path}") });
        }
        if text.starts_with("https://") {
            return wrong("http://..., since TLS is not spoken here; a command such as `curl -fk https://...` works");
        }
        match text.strip_prefix("line:") {
            Some("") => wrong("line:TEXT with a text"),
            Some(line) => Ok(Ready::Line(line.to_string())),
            None if text.trim().is_empty() => wrong("tcp:PORT, http://..., line:TEXT or a command"),
            None => Ok(Ready::Command(text.to_string())),
        }
    }

    /// The same condition with the cell's port filled in.
    pub fn with(&self, fill: impl Fn(&str) -> String) -> Ready {
        match self {
            Ready::Tcp(at) => Ready::Tcp(fill(at)),
            Ready::Http { at, path } => Ready::Http { at: fill(at), path: fill(path) },
            Ready::Line(line) => Ready::Line(fill(line)),
            Ready::Command(text) => Ready::Command(fill(text)),
        }
    }

    /// Whether a port answers, for the first two kinds; `None` for the others.
    pub fn answers(&self) -> Option<bool> {
        match self {
            Ready::Tcp(at) => Some(connect(at).is_some()),
            Ready::Http { at, path } => Some(http(at, path).unwrap_or(false)),
            Ready::Line(_) | Ready::Command(_) => None,
        }
    }

    /// The address at which something answers already, before the program is started.
    pub fn is_taken(&self) -> Option<&str> {
        match self {
            Ready::Tcp(at) | Ready::Http { at, .. } => connect(at).map(|_| at.as_str()),
            Ready::Line(_) | Ready::Command(_) => None,
        }
    }

    /// What is waited for, in words.
    pub fn text(&self) -> String {
        match self {
            Ready::Tcp(at) => format!("a connection to {at}"),
            Ready::Http { at, path } => format!("an answer of http://{at}{path} with a status from 200 to 399"),
            Ready::Line(line) => format!("`{line}` in its output"),
            Ready::Command(text) => format!("success of `{text}`"),
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(2);

fn connect(at: &str) -> Option<TcpStream> {
    let addresses: Vec<SocketAddr> = at.to_socket_addrs().ok()?.collect();
    addresses.iter().find_map(|address| TcpStream::connect_timeout(address, PATIENCE).ok())
}

fn http(at: &str, path: &str) -> Option<bool> {
    let mut stream = connect(at)?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    // The request is one write, because a server may answer and close after its first read.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {at}\r\nConnection: close\r\n\r\n").as_bytes()).ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    let status: u32 = std::str::from_utf8(&head).ok()?.split(' ').nth(1)?.parse().ok()?;
    Some((200..400).contains(&status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn each_kind_is_told_by_its_beginning() {
        assert_eq!(Ready::parse("tcp:{port}"), Ok(Ready::Tcp("127.0.0.1:{port}".into())));
        assert_eq!(Ready::parse("http://a:1/x?y"), Ok(Ready::Http { at: "a:1".into(), path: "/x?y".into() }));
        assert_eq!(Ready::parse("http://a"), Ok(Ready::Http { at: "a:80".into(), path: "/".into() }));
        assert_eq!(Ready::parse("line:up"), Ok(Ready::Line("up".into())));
        assert_eq!(Ready::parse("test -e x"), Ok(Ready::Command("test -e x".into())));
        for wrong in ["tcp:", "tcp:0", "tcp:99999", "tcp:x", "https://a", "line:", " "] {
            assert!(Ready::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_answers_and_a_free_port_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let tcp = Ready::parse(&format!("tcp:{port}")).unwrap();
        assert_eq!(tcp.answers(), Some(true));
        assert!(tcp.is_taken().is_some());
        let serve = std::thread::spawn(move || {
            for (status, stream) in ["503 No", "204 Yes"].into_iter().zip(listener.incoming().skip(2)) {
                let mut stream = stream.unwrap();
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).unwrap();
                // In one write: the client closes as soon as it has read the status.
                stream.write_all(format!("HTTP/1.0 {status}\r\n\r\n").as_bytes()).unwrap();
            }
        });
        let http = Ready::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
        assert_eq!((http.answers(), http.answers()), (Some(false), Some(true)));
        serve.join().unwrap();
        // Until then a child that another test has just forked may have the listener too.
        while tcp.answers() != Some(false) {
            std::thread::yield_now();
        }
    }
}
