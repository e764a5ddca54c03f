//! Writes rows. In: samples. Out: lines of a file, each flushed before the next cell starts.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use allocanary_measure::rows;
use allocanary_measure::rows::holds_rows;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::sample::Sample;
use allocanary_sys::{private, sys};

/// The place of a study's files.
#[derive(Clone, Debug, PartialEq)]
pub enum StudyFiles {
    /// A folder with `samples.jsonl`, `study.toml` and `report.html`.
    Folder(PathBuf),
    /// Only rows, to a file or a device.
    Rows(PathBuf),
    /// Only rows, to standard output. A container's log keeps them.
    Stdout,
    /// A new folder with this name and a number. It is created just before the first row is written, so that a study
    /// that cannot run leaves nothing behind.
    Fresh(String),
}

impl StudyFiles {
    /// The target of a user's `--out-dir`. A file is refused, and so is a new name that looks like one: it was meant for
    /// `--output`.
    pub fn folder(path: &Path) -> Result<StudyFiles> {
        let refused = |found: &str| {
            let text = format!("--out-dir {}: wanted a folder, found {found}", path.display());
            Err(Error::Input(text + ": --output FILE writes the rows alone"))
        };
        match path.metadata() {
            _ if path.as_os_str().is_empty() => {
                Err(Error::Input("--out-dir: wanted a folder, found an empty name".into()))
            }
            Ok(meta) if !meta.is_dir() => refused("a file"),
            Err(_) if has_extension(path, &["jsonl"]) || has_extension(path, &OTHERS) => refused("the name of a file"),
            _ => Ok(StudyFiles::Folder(path.into())),
        }
    }

    /// The target of a user's `--output`: `-`, a file of rows, or a device. A name of another kind of file is refused,
    /// because rows would be appended to it.
    pub fn file(output: &str) -> Result<StudyFiles> {
        let path = PathBuf::from(output);
        let refused = |found: &str, instead: &str| {
            let text = format!("--output {output}: {found}: name a file of rows (*.jsonl) or -; {instead}");
            Err(Error::Input(text))
        };
        const REPORT: &str = "`allocanary report ROWS --format csv --output FILE` writes other formats";
        match path.metadata() {
            _ if output == "-" => Ok(StudyFiles::Stdout),
            _ if output.is_empty() => {
                Err(Error::Input("--output: wanted a file of rows (*.jsonl) or -, found an empty name".into()))
            }
            Ok(meta) if meta.is_dir() => refused("is a folder", "--out-dir FOLDER writes rows, study and report"),
            Ok(meta) if meta.is_file() && meta.len() == 0 && !is_named_as_rows(&path) => {
                refused("an empty file that is not named as rows are", REPORT)
            }
            Err(_) if has_extension(&path, &OTHERS) => refused("rows are written in one format only", REPORT),
            _ => Ok(StudyFiles::Rows(path)),
        }
    }

    /// The flag that names such a target.
    fn flag(&self) -> &'static str {
        match self {
            StudyFiles::Folder(_) | StudyFiles::Fresh(_) => "--out-dir",
            StudyFiles::Rows(_) | StudyFiles::Stdout => "--output",
        }
    }

    /// This target. A [`StudyFiles::Fresh`] becomes a new folder: `allocanary-out/NAME-N` with the first free N.
    pub fn make(self) -> Result<StudyFiles> {
        let StudyFiles::Fresh(name) = &self else { return Ok(self) };
        let parent = Path::new("allocanary-out");
        private::make_folder(parent).map_err(|error| Error::file(parent, "making the output folder", error))?;
        for number in 1..1_000_000 {
            let path = parent.join(format!("{name}-{number}"));
            match private::new_folder(&path) {
                Ok(()) => return Ok(StudyFiles::Folder(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file(path, "making the output folder", error)),
            }
        }
        Err(Error::Input(format!("{}: a million studies are there already", parent.display())))
    }

    /// Its name for the user.
    pub fn name(&self) -> String {
        match self {
            StudyFiles::Folder(path) | StudyFiles::Rows(path) => path.display().to_string(),
            StudyFiles::Stdout => "standard output".into(),
            StudyFiles::Fresh(name) => name.clone(),
        }
    }

    /// The file of rows, if it can be read again.
    pub fn rows(&self) -> Option<PathBuf> {
        match self {
            StudyFiles::Folder(folder) => Some(folder.join("samples.jsonl")),
            StudyFiles::Rows(path) => path.is_file().then(|| path.clone()),
            StudyFiles::Stdout | StudyFiles::Fresh(_) => None,
        }
    }
}

/// Extensions of reports, and of other files that are not rows.
const OTHERS: [&str; 8] = ["csv", "html", "json", "log", "md", "svg", "toml", "txt"];

fn has_extension(path: &Path, any: &[&str]) -> bool {
    path.extension().is_some_and(|extension| any.iter().any(|one| extension == *one))
}

/// Whether a file may be one of rows by its name: `rows.jsonl`, or a name without an extension.
fn is_named_as_rows(path: &Path) -> bool {
    path.extension().is_none() || has_extension(path, &["jsonl"])
}

/// An open file of rows.
#[derive(Debug)]
pub struct RowsFile {
    out: File,
    name: PathBuf,
    /// Whether it is a file that can be moved or removed.
    is_file: bool,
}

/// Rows that are no longer at the path to which they were written.
#[derive(Debug)]
pub struct Left {
    /// A path by which they can be read while the store is open.
    pub readable: PathBuf,
    /// Their present path; `None` if they were removed.
    pub moved_to: Option<PathBuf>,
}

impl Left {
    /// The text of all rows.
    pub fn text(&self) -> Result<String> {
        fs::read_to_string(&self.readable).map_err(|error| Error::file(&self.readable, "reading rows", error))
    }
}

impl RowsFile {
    /// Opens the target's rows for appending. With `resume` the file may already have rows. Nothing is ever
    /// overwritten.
    pub fn open(target: &StudyFiles, resume: bool) -> Result<RowsFile> {
        let name = match target {
            StudyFiles::Folder(folder) => {
                private::make_folder(folder).map_err(|error| Error::file(folder, "making the output folder", error))?;
                folder.join("samples.jsonl")
            }
            StudyFiles::Rows(path) => path.clone(),
            StudyFiles::Stdout => PathBuf::from("standard output"),
            StudyFiles::Fresh(name) => return Err(Error::Input(format!("the folder for {name} was never made"))),
        };
        let opening = |error| Error::file(&name, "opening for rows", error);
        // A row shows the program's command line, its variables, and the last lines of one that failed. So other users cannot read rows in
        // a folder. A file that the user names has the usual permissions.
        let mode = if matches!(target, StudyFiles::Folder(_)) { 0o600 } else { 0o644 };
        let open = |read| private::open_to_append(&name, read, mode);
        let mut out = match target {
            // A copy of the descriptor instead of a path: standard output may be a socket, or another user's pipe.
            StudyFiles::Stdout => File::from(std::io::stdout().as_fd().try_clone_to_owned().map_err(opening)?),
            // A device may allow only writing.
            _ => open(true).or_else(|_| open(false)).map_err(opening)?,
        };
        let file = out.metadata().ok().filter(|meta| meta.is_file() && *target != StudyFiles::Stdout);
        // On a file system without locks the study runs without a lock.
        if file.is_some() && !sys::try_lock(&out).unwrap_or(true) {
            return Err(Error::Input(format!(
                "{}: another allocanary is writing rows there: wait until it has ended, or name another {}",
                target.name(),
                target.flag()
            )));
        }
        // This is checked under the lock, because another study may have written rows and ended meanwhile.
        let is_file = file.is_some();
        let length = file.and_then(|_| out.metadata().ok()).map_or(0, |meta| meta.len());
        if length > 0 && !holds_rows(&mut out).map_err(|error| Error::file(&name, "reading rows", error))? {
            return Err(Error::Input(format!(
                "{}: not a file of rows, and nothing was written to it: name another {}",
                name.display(),
                target.flag()
            )));
        }
        if length > 0 && !resume {
            return Err(Error::Input(format!(
                "{} holds rows already: add --resume to finish that study, or name another {}",
                name.display(),
                target.flag()
            )));
        }
        if length > 0 && !ends_with_newline(&mut out).unwrap_or(true) {
            // The last writer was killed within a line. The next row starts on a new line.
            out.write_all(b"\n").map_err(|error| Error::file(&name, "writing a row", error))?;
        }
        Ok(RowsFile { out, name, is_file })
    }

    /// Writes a row with one system call for the whole line, so that a kill leaves whole lines behind.
    ///
    /// The error contains the row, because it exists nowhere else.
    #[allow(clippy::print_stderr)] // the row exists nowhere else, and the disk may refuse any other file too
    pub fn append(&mut self, sample: &Sample) -> Result<()> {
        let mut line = rows::written(sample);
        line.push('\n');
        self.out.write_all(line.as_bytes()).map_err(|error| {
            eprintln!("the row that could not be written:\n{}", line.trim_end());
            Error::file(&self.name, "writing a row", error)
        })?;
        match self.left() {
            None => Ok(()),
            // Later rows would be lost with these. The rows so far can still be read.
            Some(_) => Err(Error::Gone(format!("{}: moved or removed while the study ran", self.name.display()))),
        }
    }

    /// The rows, if their path no longer leads to them: the file or its folder was moved or removed.
    pub fn left(&self) -> Option<Left> {
        let same = |path: &Path| {
            let (here, there) = (self.out.metadata().ok()?, path.metadata().ok()?);
            Some((here.dev(), here.ino()) == (there.dev(), there.ino()))
        };
        if !self.is_file || same(&self.name) == Some(true) {
            return None;
        }
        // The kernel knows the path of an open file. A file system may give one file several inode numbers. Then this path decides.
        let readable = PathBuf::from(format!("/proc/self/fd/{}", self.out.as_raw_fd()));
        let is_at = fs::read_link(&readable).ok();
        if is_at.is_some() && is_at == self.name.canonicalize().ok() {
            return None;
        }
        let moved_to = is_at.filter(|path| same(path) == Some(true));
        Some(Left { readable, moved_to })
    }
}

fn ends_with_newline(file: &mut File) -> std::io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests;
