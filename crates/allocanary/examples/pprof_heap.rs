//! A service that shows which call sites hold its heap: `GET /debug/pprof/heap` on a port that it prints.
//!
//! ```sh
//! cargo run --release -p allocanary --features profile --example pprof-heap -- 6060 &
//! go tool pprof -top http://127.0.0.1:6060/debug/pprof/heap
//! ```

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Result, Write};
use std::net::{TcpListener, TcpStream};

allocanary::install!(system, profile = bytes(512 << 10));

/// Keeps 24 MiB of answers.
#[inline(never)]
pub fn cached_answers() -> HashMap<u32, Vec<u8>> {
    let mut answers = HashMap::new();
    for at in 0..24_000 {
        answers.insert(at, vec![1; 1024]);
    }
    answers
}

/// Keeps 8 MiB of names.
#[inline(never)]
pub fn known_names() -> Vec<String> {
    let mut names = Vec::new();
    for at in 0..80_000 {
        names.push(format!("the name of one that is known, number {at:>60}"));
    }
    names
}

/// Answers one request.
pub fn answer(mut stream: TcpStream) -> Result<()> {
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    let (status, body) = match line.split(' ').nth(1).map(|path| path.split('?').next().unwrap_or(path)) {
        Some("/debug/pprof/heap") => match allocanary::profile::pprof() {
            Ok(body) => ("200 OK", body),
            Err(error) => ("503 Service Unavailable", format!("{error}\n").into_bytes()),
        },
        _ => ("404 Not Found", b"wanted GET /debug/pprof/heap\n".to_vec()),
    };
    let (kind, length) = (allocanary::profile::CONTENT_TYPE, body.len());
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

fn main() -> Result<()> {
    let port = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let kept = (cached_answers(), known_names());
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("http://{}/debug/pprof/heap", listener.local_addr()?);
    for stream in listener.incoming() {
        // A client that hangs up early must not end the service.
        let _ = answer(stream?);
    }
    drop(kept);
    Ok(())
}
