//! Recording a program. In: a recorder and a folder. Out: the variables that make a program record itself, and its traces.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use allocanary_kernel::private;

use crate::error::{Error, Result};
use crate::format::{HEADER, Header, at};

/// How to record a program.
pub struct RecordOptions<'a> {
    /// The preload that records.
    pub preload: &'a Path,
    /// The folder for the traces; made if it is missing.
    pub folder: &'a Path,
    /// The largest size of a trace, in bytes.
    pub limit: u64,
    /// One block in this many is recorded.
    pub rate: u32,
    /// The last time that is kept, in whole milliseconds; none keeps all.
    pub window: Option<Duration>,
    /// The stack of one allocation in this many is recorded; 0 for none.
    pub stacks: u32,
}

impl RecordOptions<'_> {
    /// The variables that make a program record itself. The folder is made, and its path absolute. `others` are the
    /// preloads that stay: the recorder stands in front of them.
    pub fn environment(&self, others: Option<&OsStr>) -> Result<Vec<(&'static str, OsString)>> {
        let failed = |error| Error::file(self.folder, "making the folder of the traces", error);
        private::make_folder(self.folder).map_err(failed)?;
        let folder = self.folder.canonicalize().map_err(failed)?;
        if self.preload.as_os_str().as_encoded_bytes().iter().any(|byte| b" :\t\n".contains(byte)) {
            let path = self.preload.display();
            return Err(Error::new(format!(
                "{path}: LD_PRELOAD takes no path with a space or a colon: install it elsewhere"
            )));
        }
        let mut preload = OsString::from(self.preload);
        if let Some(others) = others.filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let window = self.window.map_or(0, |window| window.as_millis());
        Ok(vec![
            ("LD_PRELOAD", preload),
            ("ALLOCANARY_RECORD", folder.into()),
            ("ALLOCANARY_RECORD_MAX", self.limit.to_string().into()),
            ("ALLOCANARY_RECORD_RATE", self.rate.to_string().into()),
            ("ALLOCANARY_RECORD_WINDOW", window.to_string().into()),
            ("ALLOCANARY_RECORD_STACKS", self.stacks.to_string().into()),
        ])
    }
}

/// The traces of a folder, sorted by their start.
pub fn traces(folder: &Path) -> Result<Vec<(PathBuf, Header)>> {
    let failed = |error| Error::file(folder, "reading the folder of the traces", error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let mut bytes = vec![0; HEADER];
        if path.extension().is_some_and(|ending| ending == "trace")
            && File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, 0)).is_ok()
            && let Ok(header) = Header::read(&bytes)
        {
            found.push((path, header));
        }
    }
    found.sort_by_key(|(_, header)| header.start_wall);
    Ok(found)
}

/// Cuts a trace to what is used: while it is written its file is as long as it may become, with a hole at the end. Does
/// nothing for a process that still runs.
pub fn trim(path: &Path, header: &Header) -> Result<()> {
    let runs = Path::new("/proc").join(header.pid.to_string()).exists();
    let used = header.used.next_multiple_of(HEADER as u64);
    let file = OpenOptions::new().write(true).open(path);
    let trimmed = file.and_then(|file| {
        if !runs && file.metadata()?.len() > used {
            file.set_len(used)?;
        }
        Ok(())
    });
    trimmed.map_err(|error| Error::file(path, "cutting the trace to its length", error))
}

/// Writes the moments of a run to the header of one of its traces: ready, end of the load, idle, in nanoseconds of the
/// monotonic clock, 0 for none.
pub fn put_marks(path: &Path, marks: [u64; 3]) -> Result<()> {
    let mut bytes = [0; 24];
    bytes.chunks_exact_mut(8).zip(marks).for_each(|(place, nanos)| place.copy_from_slice(&nanos.to_le_bytes()));
    let file = OpenOptions::new().write(true).open(path);
    let written = file.and_then(|file| file.write_all_at(&bytes, at::MARKS as u64));
    written.map_err(|error| Error::file(path, "writing the marks of the run", error))
}
