//! Scrapes a canary as Prometheus does: gzipped, over connections that are kept. In: an address, and the numbers of scrapes and
//! connections. Out: the time of each scrape in nanoseconds, one line each. A wrong page is an error.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;

/// The verb with which the cell starts the scraper.
pub const VERB: &str = "scrape";

/// The command.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    match scrape_all(&arguments) {
        Ok(laps) => {
            let lines: String = laps.iter().map(|lap| format!("{lap}\n")).collect();
            match std::io::stdout().write_all(lines.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn scrape_all(arguments: &[String]) -> Result<Vec<u64>, String> {
    let [address, scrapes, connections] = arguments else {
        return Err("wanted an address, how many scrapes, and over how many connections".into());
    };
    let number = |text: &String| text.parse::<usize>().map_err(|_| format!("wanted a number, found `{text}`"));
    let (scrapes, connections) = (number(scrapes)?, number(connections)?);
    // The server limits its open connections; further scrapers would only wait.
    let connections = connections.clamp(1, 32.min(scrapes.max(1)));
    std::thread::scope(|scope| {
        let share = |at: usize| scrapes / connections + usize::from(at < scrapes % connections);
        let workers: Vec<_> = (0..connections).map(|at| scope.spawn(move || scrape(address, share(at)))).collect();
        let mut laps = Vec::new();
        for worker in workers {
            laps.extend(worker.join().map_err(|_| "a scraping thread panicked".to_string())??);
        }
        Ok(laps)
    })
}

/// Makes `count` scrapes over one connection.
fn scrape(address: &str, count: usize) -> Result<Vec<u64>, String> {
    let said = |error: std::io::Error| format!("scraping {address}: {error}");
    let stream = TcpStream::connect(address).map_err(said)?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(said)?;
    let mut reader = BufReader::new(stream.try_clone().map_err(said)?);
    let mut stream = stream;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\naccept-encoding: gzip\r\n\r\n");
    let mut laps = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        stream.write_all(request.as_bytes()).map_err(said)?;
        let body = body(&mut reader).map_err(said)?;
        laps.push(start.elapsed().as_nanos() as u64);
        check(&body)?;
    }
    Ok(laps)
}

/// The body of the next answer, which must say its length.
fn body(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut length = None;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok(),
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let length: usize = length.ok_or(std::io::ErrorKind::InvalidData)?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

/// Checks that a page is complete, and that sent probes equal replies, losses and probes in flight.
fn check(body: &[u8]) -> Result<(), String> {
    let mut page = String::new();
    GzDecoder::new(body).read_to_string(&mut page).map_err(|error| format!("a page that is not gzip: {error}"))?;
    let sum = |metric: &str| -> f64 {
        let start = format!("kube_canary_{metric}{{");
        let values = page.lines().filter(|line| line.starts_with(&start)).filter_map(|line| line.rsplit(' ').next());
        values.filter_map(|value| value.parse::<f64>().ok()).sum()
    };
    let (sent, decided) = (sum("probes_sent_total"), sum("replies_total") + sum("lost_total"));
    let in_flight = sum("in_flight");
    match page.contains("kube_canary_build_info") && sent > 0.0 && sent == decided + in_flight {
        true => Ok(()),
        false => Err(format!("a page on which {sent} sent are not {decided} decided and {in_flight} in flight")),
    }
}
