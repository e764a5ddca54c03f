//! Where rows go. In: samples. Out: lines of a file, each flushed before the next cell starts.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use allocanary_cell::sample::Sample;

/// Where a study's files go.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A folder with `samples.jsonl`, `study.toml` and `report.html`.
    Folder(PathBuf),
    /// Rows alone, into a file or a device.
    Rows(PathBuf),
    /// Rows alone, onto standard output: what a container's log keeps.
    Stdout,
    /// A new folder of that name with a number: made when the first row is about to be written, so that a study that
    /// cannot be run leaves nothing behind.
    Fresh(String),
}

impl Target {
    /// What a user's `--out` means: `-`, a file of rows, a device, or else a folder.
    pub fn of(out: &str) -> Target {
        let path = PathBuf::from(out);
        match path.metadata() {
            _ if out == "-" => Target::Stdout,
            Ok(meta) if !meta.is_dir() => Target::Rows(path),
            Err(_) if path.extension().is_some_and(|extension| extension == "jsonl") => Target::Rows(path),
            _ => Target::Folder(path),
        }
    }

    /// This target, with a new folder made where that is what it is: `allocanary-out/NAME-N` with the first N that is
    /// free.
    pub fn make(self) -> Result<Target> {
        let Target::Fresh(name) = &self else { return Ok(self) };
        let parent = Path::new("allocanary-out");
        fs::create_dir_all(parent).map_err(|error| Error::file(parent, "making the output folder", error))?;
        for number in 1..1_000_000 {
            let path = parent.join(format!("{name}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Target::Folder(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file(path, "making the output folder", error)),
            }
        }
        Err(Error::Input(format!("{}: a million studies are there already", parent.display())))
    }

    /// The file of rows, where there is one that can be read again.
    pub fn rows(&self) -> Option<PathBuf> {
        match self {
            Target::Folder(folder) => Some(folder.join("samples.jsonl")),
            Target::Rows(path) => path.is_file().then(|| path.clone()),
            Target::Stdout | Target::Fresh(_) => None,
        }
    }
}

/// An open file of rows.
#[derive(Debug)]
pub struct Store {
    out: File,
    name: PathBuf,
}

impl Store {
    /// Opens the target's rows for appending. `resume` allows rows to be there already; nothing is ever overwritten.
    pub fn open(target: &Target, resume: bool) -> Result<Store> {
        let name = match target {
            Target::Folder(folder) => {
                fs::create_dir_all(folder).map_err(|error| Error::file(folder, "making the output folder", error))?;
                folder.join("samples.jsonl")
            }
            Target::Rows(path) => path.clone(),
            Target::Stdout => PathBuf::from("standard output"),
            Target::Fresh(name) => return Err(Error::Input(format!("the folder for {name} was never made"))),
        };
        let opening = |error| Error::file(&name, "opening for rows", error);
        let open = |name: &Path| OpenOptions::new().read(true).append(true).create(true).open(name);
        let mut out = match target {
            // Its own descriptor and no path: standard output may be a socket, or another user's pipe.
            Target::Stdout => File::from(std::io::stdout().as_fd().try_clone_to_owned().map_err(opening)?),
            // A device may be open for writing only.
            _ => open(&name).or_else(|_| OpenOptions::new().append(true).create(true).open(&name)).map_err(opening)?,
        };
        let length = out.metadata().map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 });
        if length > 0 && !resume && *target != Target::Stdout {
            return Err(Error::Input(format!(
                "{} holds rows already: add --resume to finish that study, or name another --out",
                name.display()
            )));
        }
        if length > 0 && !ends_with_newline(&mut out).unwrap_or(true) {
            // The last writer was killed within a line. The next row starts on a line of its own.
            out.write_all(b"\n").map_err(|error| Error::file(&name, "writing a row", error))?;
        }
        Ok(Store { out, name })
    }

    /// Writes a row. One call to the system for the whole line, so that a kill leaves whole lines behind.
    ///
    /// The error carries the row, because it is nowhere else.
    #[allow(clippy::print_stderr)] // the row is nowhere else, and the error may be the disk's on which any other file would lie
    pub fn append(&mut self, sample: &Sample) -> Result<()> {
        let mut line = serde_json::to_string(sample).expect("a sample has only texts, numbers, lists and maps");
        line.push('\n');
        self.out.write_all(line.as_bytes()).map_err(|error| {
            eprintln!("the row that could not be written:\n{}", line.trim_end());
            Error::file(&self.name, "writing a row", error)
        })
    }
}

fn ends_with_newline(file: &mut File) -> std::io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
