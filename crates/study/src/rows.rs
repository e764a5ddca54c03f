//! Reads files of rows. In: JSON lines. Out: samples, one at a time; lines that are none are named and passed over.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};
use allocanary_cell::sample::{SCHEMA, Sample};

/// Reads every row of `files` in order. `-` is standard input. Gives what was wrong with single lines; an error is a
/// file that could not be read at all.
pub fn read(files: &[PathBuf], mut row: impl FnMut(Sample)) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let reading = |error| Error::file(file, "reading rows", error);
        if file == Path::new("-") {
            read_lines("standard input", std::io::stdin().lock(), &mut row, &mut problems).map_err(reading)?;
        } else {
            let opened = File::open(rows_of(file)).map_err(reading)?;
            read_lines(&name, BufReader::with_capacity(1 << 18, opened), &mut row, &mut problems).map_err(reading)?;
        }
    }
    Ok(problems)
}

/// A study's folder stands for the rows in it.
fn rows_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("samples.jsonl") } else { path.to_path_buf() }
}

fn read_lines(
    name: &str,
    mut input: impl BufRead,
    row: &mut impl FnMut(Sample),
    problems: &mut Vec<String>,
) -> std::io::Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let whole = line.ends_with(b"\n");
        if line.trim_ascii().is_empty() {
            continue;
        }
        match parse(&line) {
            Ok(sample) => row(sample),
            Err(problem) if !whole => {
                problems.push(format!("{name}:{number}: the last line is torn, as a kill leaves it: {problem}"));
            }
            Err(problem) => problems.push(format!("{name}:{number}: not a row: {problem}")),
        }
    }
    Ok(())
}

fn parse(line: &[u8]) -> std::result::Result<Sample, String> {
    match serde_json::from_slice::<Sample>(line) {
        Ok(sample) if sample.schema == SCHEMA => Ok(sample),
        // A row of a later schema may or may not fit today's fields; only its number is sure to be readable.
        other => match (serde_json::from_slice::<Version>(line), other) {
            (Ok(Version { schema }), _) if schema != SCHEMA => Err(format!(
                "schema {schema}, and this command reads {SCHEMA}: report it with the command that wrote it"
            )),
            (_, Err(error)) => Err(error.to_string()),
            (_, Ok(sample)) => Err(format!("schema {}", sample.schema)),
        },
    }
}

#[derive(Deserialize)]
struct Version {
    schema: u32,
}
