//! The cost of appending, sorting and reading many records. In: the option `--full`, or none. Out: a table of seconds and memory.
//!
//! The records have 16 bytes, a random key of 8 and a value of 8, as in the published run of Dgraph's buffer. There are 20 million of them,
//! or 100 million with `--full`, which wants 3.2 GB of disk. They are sorted by the key on two threads. The file is in `TMPDIR`, or in
//! /var/tmp. Each line has medians of fresh processes that run in turns, because a peak is that of a whole process. Processor time is next
//! to wall time, which is longer on a busy machine. No time is asserted, but the records that are read must be in order and complete.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use allocanary::sort_buffer::{Options, SortBuffer};
use allocanary_measure::summary::stats::median;
use allocanary_sys::proc::ProcStatus;
use allocanary_sys::rng::Rng;
use allocanary_sys::sys::usage;
use allocanary_text::units::Bytes;

const ROUNDS: usize = 5;
/// A buffer with more bytes than this moves to the file.
const MAP_AFTER: usize = 16 << 20;
const COLUMNS: [&str; 7] = ["append s", "sort s", "iterate s", "all s", "all, CPU s", "peak RSS", "most anonymous"];

fn main() {
    let asked: Vec<String> = std::env::args().collect();
    if let Some(at) = asked.iter().position(|argument| argument == "--one") {
        let records = asked[at + 3].parse().expect("a number of records");
        let figures = one(&asked[at + 1], &asked[at + 2], records);
        return println!("{}", figures.map(|figure| figure.to_string()).join(" "));
    }
    let mut lines = Vec::new();
    for place in ["memory", "mapped"] {
        for by in ["number", "prefix", "comparison"] {
            lines.push((place, by, 20_000_000, ROUNDS));
        }
    }
    if asked.iter().any(|argument| argument == "--full") {
        lines.extend(["number", "comparison"].map(|by| ("mapped", by, 100_000_000, 3)));
    }
    let mut figures = vec![Vec::new(); lines.len()];
    for round in 0..ROUNDS {
        for (line, found) in lines.iter().zip(&mut figures).filter(|((.., rounds), _)| round < *rounds) {
            found.push(fresh(line.0, line.1, line.2));
        }
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["records of 16 bytes", "sorted by"].iter().chain(&COLUMNS));
    for ((place, by, records, _), found) in lines.iter().zip(figures) {
        let column = |at: usize| median(&found.iter().map(|row| row[at]).collect::<Vec<_>>()).unwrap_or(f64::NAN);
        let mut row = vec![format!("{} million, {place}", records / 1_000_000), by.to_string()];
        row.extend((0..5).map(|at| format!("{:.3}", column(at))));
        row.extend((5..7).map(|at| Bytes(column(at) as u64).to_string()));
        table.add_row(row);
    }
    println!("{table}");
}

/// The figures of one fresh process.
fn fresh(place: &str, by: &str, records: usize) -> Vec<f64> {
    let own = std::env::current_exe().expect("this bench is a file");
    let ran = Command::new(own).args(["--one", place, by, &records.to_string()]).output().expect("this bench again");
    assert!(ran.status.success(), "{place}, {records} records: {}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8_lossy(&ran.stdout);
    said.split_whitespace().map(|figure| figure.parse().expect("a figure")).collect()
}

fn one(place: &str, by: &str, records: u64) -> [f64; COLUMNS.len()] {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The kernel keeps the peak of all resident memory, but not of its anonymous part. So this thread samples that part.
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(status().anonymous.unwrap_or(0));
                std::thread::sleep(Duration::from_millis(2));
            }
            most
        });
        let [append, sort, iterate] = moments(place, by, records);
        let used = usage();
        done.store(true, Ordering::Relaxed);
        let anonymous = watch.join().expect("the watch reads a file") as f64;
        let peak = status().most_resident.unwrap_or(0) as f64;
        let processor = (used.user_us + used.system_us) as f64 / 1e6;
        [append, sort, iterate, append + sort + iterate, processor, peak, anonymous]
    })
}

fn moments(place: &str, by: &str, records: u64) -> [f64; 3] {
    let folder = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let map_after = (place == "mapped").then_some(MAP_AFTER);
    let options = Options { record_length: Some(16), map_after, folder, threads: 2, ..Options::default() };
    let mut buffer = SortBuffer::new(options);
    let mut rng = Rng::new(1);
    let mut keys = 0_u64;

    let start = Instant::now();
    for value in 0..records {
        let key = rng.next();
        keys = keys.wrapping_add(key);
        let mut record = [0; 16];
        record[..8].copy_from_slice(&key.to_be_bytes());
        record[8..].copy_from_slice(&value.to_be_bytes());
        buffer.push(&record).expect("room for the records");
    }
    let append = start.elapsed();

    let start = Instant::now();
    let sorted = match by {
        "number" => buffer.sort_by_number(key),
        "prefix" => buffer.sort_by_prefix(8),
        _ => buffer.sort_by(|a, b| a[..8].cmp(&b[..8])),
    };
    sorted.expect("room for the sort");
    let sort = start.elapsed();

    let start = Instant::now();
    let mut last = 0;
    for record in &buffer {
        let key = key(record);
        assert!(key >= last, "{key} after {last}");
        last = key;
        keys = keys.wrapping_sub(key);
    }
    let iterate = start.elapsed();
    assert_eq!((keys, buffer.len() as u64), (0, records), "no record is lost or changed");
    assert_eq!(buffer.is_mapped(), place == "mapped");
    [append, sort, iterate].map(|time| time.as_secs_f64())
}

fn key(record: &[u8]) -> u64 {
    u64::from_be_bytes(record[..8].try_into().expect("a record has 16 bytes"))
}

fn status() -> ProcStatus {
    ProcStatus::own().unwrap_or_default()
}
