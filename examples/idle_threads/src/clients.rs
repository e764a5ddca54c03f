//! Clients of an HTTP server. Each sends one request after the other on its connection. In: an address. Out: how many were answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::{CLIENTS, LOAD};

/// Puts a server under load, and returns the number of answers. Each client gets at least one, even if a busy machine leaves no time for
/// more.
///
/// # Panics
///
/// If an answer is not 200.
pub fn ask(address: SocketAddr) -> u64 {
    let until = Instant::now() + LOAD;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(move || ask_until(address, until))).collect();
        clients.into_iter().map(|client| client.join().expect("every answer is 200")).sum()
    })
}

fn ask_until(address: SocketAddr, until: Instant) -> u64 {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let mut answers = BufReader::with_capacity(512, stream.try_clone().expect("there are descriptors left"));
    let mut line = String::with_capacity(256);
    let mut answered = 0;
    loop {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("the server reads");
        let mut length = 0;
        for number in 0.. {
            line.clear();
            answers.read_line(&mut line).expect("the server answers");
            match line.trim().to_ascii_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().expect("it is a number"),
                None if line.trim().is_empty() => break,
                None => assert!(number == 0 && line.starts_with("HTTP/1.1 200"), "{line}"),
                Some(_) => {}
            }
        }
        let mut body = [0; 32];
        answers.read_exact(&mut body[..length]).expect("the body is there");
        answered += 1;
        if Instant::now() >= until {
            return answered;
        }
    }
}
