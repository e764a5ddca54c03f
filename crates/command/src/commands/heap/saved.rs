//! Files of readings, one line of JSON each. In: readings, or a file. Out: a file, or its readings. Only this user can
//! read the files.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use allocanary_heap::{Reading, SCHEMA};
use allocanary_rows::error::{Error, Result};
use allocanary_sys::{input, private};
use serde::Deserialize;

/// A file that is being written.
pub struct Saved {
    file: File,
    path: PathBuf,
}

impl Saved {
    /// Makes an empty file.
    pub fn create(path: &Path) -> Result<Saved> {
        let file = private::replace(path, b"").map_err(|error| Error::file(path, "creating", error))?;
        Ok(Saved { file, path: path.into() })
    }

    /// Adds a reading.
    pub fn add(&mut self, reading: &Reading) -> Result<()> {
        let line = serde_json::to_string(reading).map_err(|error| Error::Input(format!("heap: --save: {error}")))?;
        writeln!(self.file, "{line}").map_err(|error| Error::file(&self.path, "writing a reading", error))
    }
}

/// The readings of a file.
pub fn load(path: &Path) -> Result<Vec<Reading>> {
    let text = input::text(path).map_err(|error| Error::file(path, "reading", error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let readings: Result<Vec<Reading>> = lines.map(|(at, line)| parse(path, at + 1, line)).collect();
    match readings {
        Ok(readings) if readings.is_empty() => Err(Error::NoRows(format!(
            "{}: wanted a reading of `allocanary heap PID --save`, found none",
            path.display()
        ))),
        readings => readings,
    }
}

/// The part of a reading that says how to read the rest. It is not a [`serde_json::Value`]: that takes twenty times the length of a text,
/// and another user may have written the file.
#[derive(Deserialize)]
struct Version {
    schema: Option<u32>,
}

fn parse(path: &Path, number: usize, line: &str) -> Result<Reading> {
    let wrong = |what: String| Error::Input(format!("{}: line {number}: {what}", path.display()));
    match serde_json::from_str(line) {
        Ok(Version { schema: Some(SCHEMA) }) => {
            serde_json::from_str(line).map_err(|error| wrong(format!("not a reading: {error}")))
        }
        Ok(Version { schema: Some(schema) }) => {
            Err(wrong(format!("wanted a reading of schema {SCHEMA}, found {schema}: use the command that wrote it")))
        }
        Err(error) if !error.is_data() => Err(wrong(format!("wanted a reading, found no JSON: {error}"))),
        _ => Err(wrong("wanted a reading of `allocanary heap PID --save`, found no `schema`".into())),
    }
}
