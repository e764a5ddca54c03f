//! Reads files of rows. In: JSON lines. Out: samples, one at a time. Invalid lines are named and skipped.
//!
//! The texts of rows are made harmless here, so that no report and no error can pass on what a terminal obeys.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use allocanary_cell::sample::{SCHEMA, Sample};
use allocanary_kernel::terminal::{harmless, steers};

/// Reads every row of `files` in order. `-` is standard input. Returns the problems of single lines. Fails if a file
/// cannot be read at all.
pub fn read(files: &[PathBuf], mut row: impl FnMut(Sample)) -> Result<Vec<String>> {
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
fn rows_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("samples.jsonl") } else { path.to_path_buf() }
}

/// The maximum length of a row, in bytes. Our own rows have some 3 KiB.
pub const MOST_LINE: u64 = 4 << 20;
/// The maximum number of bad lines of a file that are reported one by one.
const MOST_TOLD: usize = 20;
/// A file with at least this many bad lines, and fewer valid rows than bad lines, is not a file of rows.
const MOST_BAD: usize = 1000;

fn read_lines(
    name: &str,
    mut input: impl BufRead,
    row: &mut impl FnMut(Sample),
    problems: &mut Vec<String>,
) -> Result<()> {
    let mut line = Vec::new();
    let (mut rows, mut bad, mut blank) = (0, 0, 0);
    let mut first = String::new();
    for number in 1.. {
        line.clear();
        let read = input.by_ref().take(MOST_LINE + 1).read_until(b'\n', &mut line);
        if read.map_err(|error| Error::file(name, "reading rows", error))? == 0 {
            break;
        }
        if line.len() as u64 > MOST_LINE {
            let text = format!("{name}: not a file of rows: line {number} is longer than {MOST_LINE} bytes");
            return Err(Error::Input(text));
        }
        let whole = line.ends_with(b"\n");
        if line.trim_ascii().is_empty() {
            blank += 1;
        } else {
            match parse(&line) {
                Ok(sample) => {
                    rows += 1;
                    row(sample);
                    continue;
                }
                Err(problem) => {
                    bad += 1;
                    let problem = match whole {
                        false => format!("{name}:{number}: the last line is torn, as a kill leaves it: {problem}"),
                        true => format!("{name}:{number}: not a row: {problem}"),
                    };
                    if first.is_empty() {
                        first.clone_from(&problem);
                    }
                    if bad <= MOST_TOLD {
                        problems.push(problem);
                    }
                }
            }
        }
        if bad + blank >= MOST_BAD && bad + blank > rows {
            let first = if first.is_empty() { "they are empty".into() } else { first };
            let lines = bad + blank;
            return Err(Error::Input(format!(
                "{name}: not a file of rows: {lines} of {number} lines are none: {first}"
            )));
        }
    }
    if bad > MOST_TOLD {
        problems.push(format!("{name}: {} more lines are no rows", bad - MOST_TOLD));
    }
    Ok(())
}

fn parse(line: &[u8]) -> std::result::Result<Sample, String> {
    match sample(line) {
        Ok(sample) if sample.schema == SCHEMA => Ok(sample),
        // A row of a later schema may not fit today's fields. Only its schema number is certain to be readable.
        other => match (serde_json::from_slice::<Version>(line), other) {
            (Ok(Version { schema }), _) if schema != SCHEMA => Err(format!(
                "schema {schema}, and this command reads {SCHEMA}: report it with the command that wrote it"
            )),
            // The parser quotes the line.
            (_, Err(error)) => Err(harmless(&error.to_string()).into_owned()),
            (_, Ok(sample)) => Err(format!("schema {}", sample.schema)),
        },
    }
}

/// The sample of a line, with harmless texts.
fn sample(line: &[u8]) -> serde_json::Result<Sample> {
    // Control characters are escaped in JSON, and all others that steer a terminal are not ASCII. Nearly all rows have
    // neither, and are not looked at any further.
    if line.is_ascii() && !line.contains(&b'\\') {
        return serde_json::from_slice(line);
    }
    let mut row: Value = serde_json::from_slice(line)?;
    tame(&mut row);
    serde_json::from_value(row)
}

/// Makes every text of a row harmless, names included.
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

/// A row as a line to be written. Characters that steer a terminal and that JSON leaves as they are become escapes, which
/// mean the same to every reader.
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
