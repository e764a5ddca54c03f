//! Reads files of rows. In: JSON lines. Out: samples, one at a time. Invalid lines are named and skipped.
//!
//! The texts of rows are made harmless here, so that no report and no error can pass on characters that control a terminal.

mod ours;

pub use ours::holds_rows;

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use serde::Deserialize;
use serde_json::Value;

use allocanary_rows::error::{Error, Result};
use allocanary_rows::sample::{SCHEMA, Sample};
use allocanary_text::outside::{harmless, steers};

/// Reads every row of `files` in order. `-` is standard input. Returns the problems of single lines. Fails if a file
/// cannot be read at all, or if `row` refuses a row: the error names its line.
pub fn read(files: &[PathBuf], mut row: impl FnMut(Sample) -> Result<()>) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in files {
        let name = harmless(&file.display().to_string()).into_owned();
        if file == Path::new("-") {
            read_lines("standard input", std::io::stdin().lock(), &mut row, &mut problems)?;
        } else {
            let path = rows_of(file);
            let opened = File::open(&path).map_err(|error| match error.kind() {
                ErrorKind::NotFound if path != *file => {
                    Error::Input(format!("{name}: a folder without rows: wanted samples.jsonl in it"))
                }
                _ => Error::file(&path, "reading rows", error),
            })?;
            read_lines(&name, BufReader::with_capacity(1 << 18, opened), &mut row, &mut problems)?;
        }
    }
    Ok(problems)
}

/// The file of rows: in a study's folder `samples.jsonl`, else the path itself.
pub fn rows_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("samples.jsonl") } else { path.to_path_buf() }
}

/// The maximum length of a row, in bytes. Our own rows have some 3 KiB.
pub const MOST_LINE: u64 = 4 << 20;
/// The maximum number of bad lines of a file that are reported one by one.
const MOST_TOLD: usize = 20;
/// A file with at least this many bad lines, and fewer valid rows than bad lines, is not a file of rows.
const MOST_BAD: usize = 1000;

/// The bytes of lines that are parsed together as one stretch.
const STRETCH: usize = 64 << 10;
/// The maximum number of threads that parse. Adding a row to a report takes a third of the time of parsing it.
const MOST_PARSERS: usize = 4;

fn read_lines(
    name: &str,
    mut input: impl BufRead,
    row: &mut impl FnMut(Sample) -> Result<()>,
    problems: &mut Vec<String>,
) -> Result<()> {
    let parsers = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_PARSERS);
    let mut tally = Tally { name, row, problems, lines: 0, rows: 0, bad: 0, blank: 0, first: String::new() };
    std::thread::scope(|scope| -> Result<()> {
        // This thread reads the input and adds rows in order. The other threads parse the stretches in turn.
        let start = |_| -> Result<_> {
            let (stretches, to_parse) = mpsc::sync_channel::<Vec<u8>>(2);
            let (parsed, rows) = mpsc::sync_channel::<Vec<Line>>(2);
            let work = move || to_parse.iter().try_for_each(|stretch| parsed.send(lines(&stretch)));
            // Starting a thread fails if a limit of processes is reached.
            let started = std::thread::Builder::new().spawn_scoped(scope, work);
            started.map_err(|error| Error::file(name, "starting a thread that parses rows", error))?;
            Ok((stretches, rows))
        };
        let crew: Vec<_> = (0..parsers).map(start).collect::<Result<_>>()?;
        let (mut sent, mut taken) = (0, 0);
        loop {
            let stretch = next_stretch(&mut input).map_err(|error| Error::file(name, "reading rows", error))?;
            let ended = stretch.is_empty();
            if !ended {
                crew[sent % parsers].0.send(stretch).expect("a parser ends after its stretches");
                sent += 1;
            }
            while taken < sent && (ended || sent - taken == 2 * parsers) {
                let lines = crew[taken % parsers].1.recv().expect("a parser answers each stretch");
                lines.into_iter().try_for_each(|line| tally.add(line))?;
                taken += 1;
            }
            if ended {
                return Ok(());
            }
        }
    })?;
    let untold = tally.bad.saturating_sub(MOST_TOLD);
    if untold > 0 {
        problems.push(format!("{name}: {untold} more lines are no rows"));
    }
    Ok(())
}

/// The next whole lines of the input, or nothing at its end. A line that is too long ends its stretch in the middle.
fn next_stretch(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut stretch = Vec::new();
    while stretch.len() < STRETCH {
        let read = input.by_ref().take(MOST_LINE + 1).read_until(b'\n', &mut stretch)?;
        if read == 0 || read as u64 > MOST_LINE {
            break;
        }
    }
    Ok(stretch)
}

/// The kind of a line in a file of rows.
enum Line {
    Row(Box<Sample>),
    Blank,
    Bad(String),
    TooLong,
}

fn lines(stretch: &[u8]) -> Vec<Line> {
    let parsed = |line: &[u8]| match parse(line) {
        Ok(sample) => Line::Row(Box::new(sample)),
        Err(problem) if line.ends_with(b"\n") => Line::Bad(format!("not a row: {problem}")),
        Err(problem) => Line::Bad(format!("the last line is torn, as a kill leaves it: {problem}")),
    };
    let one = |line: &[u8]| match line {
        line if line.len() as u64 > MOST_LINE => Line::TooLong,
        line if line.trim_ascii().is_empty() => Line::Blank,
        line => parsed(line),
    };
    stretch.split_inclusive(|byte| *byte == b'\n').map(one).collect()
}

/// What was found in a file so far, line by line.
struct Tally<'a, F> {
    name: &'a str,
    row: &'a mut F,
    problems: &'a mut Vec<String>,
    lines: usize,
    rows: usize,
    bad: usize,
    blank: usize,
    first: String,
}

impl<F: FnMut(Sample) -> Result<()>> Tally<'_, F> {
    /// Adds the next line. Fails if its row is refused, or if the file is not a file of rows.
    fn add(&mut self, line: Line) -> Result<()> {
        self.lines += 1;
        let (name, number) = (self.name, self.lines);
        match line {
            Line::Row(sample) => {
                self.rows += 1;
                return (self.row)(*sample).map_err(|error| Error::Input(format!("{name}:{number}: {error}")));
            }
            Line::TooLong => {
                let text = format!("{name}: not a file of rows: line {number} is longer than {MOST_LINE} bytes");
                return Err(Error::Input(text));
            }
            Line::Blank => self.blank += 1,
            Line::Bad(problem) => {
                self.bad += 1;
                let problem = format!("{name}:{number}: {problem}");
                if self.first.is_empty() {
                    self.first.clone_from(&problem);
                }
                if self.bad <= MOST_TOLD {
                    self.problems.push(problem);
                }
            }
        }
        let none = self.bad + self.blank;
        if none >= MOST_BAD && none > self.rows {
            let first = if self.first.is_empty() { "they are empty" } else { &self.first };
            return Err(Error::Input(format!(
                "{name}: not a file of rows: {none} of {number} lines are none: {first}"
            )));
        }
        Ok(())
    }
}

fn parse(line: &[u8]) -> std::result::Result<Sample, String> {
    match sample(line) {
        Ok(sample) if sample.schema == SCHEMA => Ok(sample),
        // A row of another schema may not fit today's fields. Only its schema number is certain to be readable.
        other => match (serde_json::from_slice::<Version>(line), other) {
            (Ok(Version { schema }), _) if schema != SCHEMA => Err(format!(
                "schema {schema}, and this command reads {SCHEMA}: report it with the command that wrote it"
            )),
            // The parser's error may contain a part of the line.
            (_, Err(error)) => Err(harmless(&error.to_string()).into_owned()),
            (_, Ok(sample)) => Err(format!("schema {}", sample.schema)),
        },
    }
}

/// The sample of a line, with harmless texts.
fn sample(line: &[u8]) -> serde_json::Result<Sample> {
    // JSON escapes control characters, and all other characters that control a terminal are not ASCII. Nearly all rows have neither, and
    // need no further look.
    if line.is_ascii() && !line.contains(&b'\\') {
        return serde_json::from_slice(line);
    }
    let mut row: Value = serde_json::from_slice(line)?;
    tame(&mut row);
    serde_json::from_value(row)
}

/// Makes every text of a row harmless, also the names of its fields.
fn tame(value: &mut Value) {
    match value {
        Value::String(text) if text.contains(steers) => *text = harmless(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(tame),
        Value::Object(fields) => {
            let wild: Vec<String> = fields.keys().filter(|name| name.contains(steers)).cloned().collect();
            for name in wild {
                let value = fields.remove(&name).unwrap_or_default();
                fields.insert(harmless(&name).into_owned(), value);
            }
            fields.values_mut().for_each(tame);
        }
        _ => {}
    }
}

/// A row as a line to be written. Characters that control a terminal and that JSON leaves as they are become escapes. Every reader takes
/// these for the same text.
pub fn written(sample: &Sample) -> String {
    let line = serde_json::to_string(sample).expect("a sample has only texts, numbers, lists and maps");
    if !line.contains(steers) {
        return line;
    }
    let mut out = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        match c {
            c if steers(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")))
            }
            c => out.push(c),
        }
    }
    out
}

#[derive(Deserialize)]
struct Version {
    schema: u32,
}
