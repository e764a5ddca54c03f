//! Recording a program. In: a recorder and a folder. Out: the variables that make a program record itself, and its traces.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use allocanary_sys::private;

mod others;

use crate::error::{Error, Result};
use crate::format::{CHUNK_ALIGN, CHUNK_HEADER, HEADER, LONGEST_CHUNK, RESIDENT_MAGIC, TableHeader, TraceHeader, at};
use crate::stacks::Resident;

/// The options of a recording.
pub struct RecordOptions<'a> {
    /// The preload that records.
    pub preload: &'a Path,
    /// The folder for the traces. It is made if it does not exist.
    pub folder: &'a Path,
    /// The largest size of a trace, in bytes.
    pub limit: u64,
    /// One block in this many is recorded.
    pub rate: u32,
    /// The length of the window, in whole milliseconds; `None` keeps all events.
    pub window: Option<Duration>,
    /// The stack of one allocation in this many is recorded; 0 for none.
    pub stacks: u32,
}

impl RecordOptions<'_> {
    /// Makes the folder. Returns the variables that make a program record itself; the folder's path in them is
    /// absolute. `others` are preloads that the program has already: they stay, after the recorder.
    pub fn environment(&self, others: Option<&OsStr>) -> Result<Vec<(&'static str, OsString)>> {
        let failed = |error| Error::file(self.folder, "making the folder of the traces", error);
        private::check_link(self.folder).map_err(failed)?;
        private::make_passage(self.folder).map_err(failed)?;
        let folder = self.folder.canonicalize().map_err(failed)?;
        let of_others = others::make(&folder).map_err(failed)?;
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
        let mut variables = vec![
            ("LD_PRELOAD", preload),
            ("ALLOCANARY_RECORD", folder.into()),
            ("ALLOCANARY_RECORD_MAX", self.limit.to_string().into()),
            ("ALLOCANARY_RECORD_SAMPLE", self.rate.to_string().into()),
            ("ALLOCANARY_RECORD_WINDOW", window.to_string().into()),
            ("ALLOCANARY_RECORD_STACK_SAMPLE", self.stacks.to_string().into()),
        ];
        variables.extend(of_others.map(|folder| ("ALLOCANARY_RECORD_OTHERS", folder.into())));
        Ok(variables)
    }
}

pub use others::gather;

/// The traces that a recording made.
pub struct TraceFiles {
    /// The traces, sorted by their start.
    pub traces: Vec<(PathBuf, TraceHeader)>,
    /// New files that look like traces, but belong to a user as whom no recorded process ran. Another user may have put them there.
    pub of_others: Vec<PathBuf>,
}

/// Moves the traces of other users to the folder of the traces. Returns all traces there that are not in `before`. `was_recorded` says
/// whether a recorded process may have run as this user.
pub fn made(folder: &Path, before: &[PathBuf], was_recorded: impl Fn(u32) -> bool) -> Result<TraceFiles> {
    let gathered = gather(folder);
    let new = traces(folder)?.into_iter().filter(|(path, _)| !before.contains(path));
    let (traces, others) = new.partition::<Vec<_>, _>(|(path, _)| {
        let owner = fs::symlink_metadata(path).map(|meta| meta.uid());
        owner.is_ok_and(|owner| owner == private::user() || gathered.contains(path) && was_recorded(owner))
    });
    Ok(TraceFiles { traces, of_others: others.into_iter().map(|(path, _)| path).collect() })
}

/// The traces of a folder, sorted by their start.
pub fn traces(folder: &Path) -> Result<Vec<(PathBuf, TraceHeader)>> {
    let failed = |error| Error::file(folder, "reading the folder of the traces", error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let mut bytes = vec![0; HEADER];
        if path.extension().is_some_and(|ending| ending == "trace")
            && open(&path, false).and_then(|file| file.read_exact_at(&mut bytes, 0)).is_ok()
            && let Ok(header) = TraceHeader::read(&bytes)
        {
            found.push((path, header));
        }
    }
    found.sort_by_key(|(_, header)| header.start_wall);
    Ok(found)
}

/// Opens a trace in the folder of the traces. Another user may have put a link or a pipe there.
fn open(path: &Path, write: bool) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(!write).write(write).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// Whether the process may still write to its trace.
pub(crate) fn may_write(header: &TraceHeader) -> bool {
    !header.taken_out && Path::new("/proc").join(header.pid.to_string()).exists()
}

/// Cuts the file of a trace to its used length. During the recording the file has its maximum length, with a hole at its end. Does nothing
/// if the process still runs.
pub fn trim(path: &Path, header: &TraceHeader) -> Result<()> {
    let runs = may_write(header);
    let used = header.used.next_multiple_of(HEADER as u64);
    let file = open(path, true);
    let trimmed = file.and_then(|file| {
        if !runs && file.metadata()?.len() > used {
            file.set_len(used)?;
        }
        Ok(())
    });
    trimmed.map_err(|error| Error::file(path, "cutting the trace to its length", error))
}

/// Adds the pages that were resident at the marks to a trace with stacks, and updates its header. Does nothing if the process still runs,
/// because it may write at the same place. Returns whether the pages were written.
pub fn put_residents(path: &Path, header: &mut TraceHeader, residents: &[Resident]) -> Result<bool> {
    if may_write(header) || header.stacks == 0 {
        return Ok(false);
    }
    let bytes: Vec<u8> = residents.iter().flat_map(|resident| tables(resident, header.used)).collect();
    let used = header.used + bytes.len() as u64;
    let file = open(path, true);
    let written = file.and_then(|file| {
        file.write_all_at(&bytes, header.used)?;
        file.write_all_at(&used.to_le_bytes(), at::USED as u64)
    });
    written.map_err(|error| Error::file(path, "writing which pages were resident", error))?;
    header.used = used;
    Ok(true)
}

/// The chunks that contain the resident pages of a mark.
fn tables(resident: &Resident, offset: u64) -> Vec<u8> {
    const MOST: usize = (LONGEST_CHUNK - CHUNK_HEADER) / 16;
    let mut bytes = Vec::new();
    for ranges in resident.ranges.chunks(MOST) {
        let (start, length) = (bytes.len(), (CHUNK_HEADER + ranges.len() * 16).next_multiple_of(CHUNK_ALIGN));
        bytes.resize(start + length, 0);
        let (first, count) = (u32::from(resident.mark), ranges.len() as u32);
        let offset = offset + start as u64;
        TableHeader { magic: RESIDENT_MAGIC, offset, length: length as u32, first, count }.write(&mut bytes[start..]);
        let numbers = ranges.iter().flat_map(|range| [range.start, range.end]).flat_map(u64::to_le_bytes);
        bytes[start + CHUNK_HEADER..].iter_mut().zip(numbers).for_each(|(place, byte)| *place = byte);
    }
    bytes
}

/// Writes the moments of a run to the header of one of its traces: ready, end of the load, idle. They are in nanoseconds of the monotonic
/// clock, or 0 for none.
pub fn put_marks(path: &Path, marks: [u64; 3]) -> Result<()> {
    let mut bytes = [0; 24];
    bytes.chunks_exact_mut(8).zip(marks).for_each(|(place, nanos)| place.copy_from_slice(&nanos.to_le_bytes()));
    let file = open(path, true);
    let written = file.and_then(|file| file.write_all_at(&bytes, at::MARKS as u64));
    written.map_err(|error| Error::file(path, "writing the marks of the run", error))
}

/// Writes the time at which the recording was ended from outside to the header of a trace, in nanoseconds of the
/// monotonic clock.
pub fn put_end(path: &Path, nanos: u64) -> Result<()> {
    let file = open(path, true);
    let written = file.and_then(|file| file.write_all_at(&nanos.to_le_bytes(), at::END as u64));
    written.map_err(|error| Error::file(path, "writing the end of the recording", error))
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests {
    use super::*;
    use crate::builder::TraceBuilder;
    use crate::coder::{AllocFunction, Event};
    use crate::reader::Trace;

    #[test]
    fn resident_pages_are_added_to_a_trace_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.trace");
        let mut builder = TraceBuilder::with_stacks(4096, 1);
        builder.event(0, 1, Event::New { how: AllocFunction::Malloc, address: 4096, size: 8 });
        fs::write(&path, builder.finish()).unwrap();
        let mut header = Trace::open(&path).unwrap().header;
        // No process has that number.
        header.pid = u32::MAX;
        // More than one chunk of one mark.
        let many: Vec<_> = (0..70_000_u64).map(|page| page * 8192..page * 8192 + 4096).collect();
        let residents = [Resident { mark: 2, ranges: many }, Resident { mark: 1, ranges: vec![4096..8192] }];
        assert!(put_residents(&path, &mut header, &residents).unwrap());
        let trace = Trace::open(&path).unwrap();
        assert_eq!(trace.residents().unwrap(), residents);
        assert_eq!((trace.header.used, trace.damage()), (header.used, None));
        assert_eq!(trace.thread_count(), 1, "its events are still there");
    }

    #[test]
    fn nothing_is_added_where_the_process_may_still_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.trace");
        let bytes = TraceBuilder::with_stacks(4096, 1).finish();
        fs::write(&path, &bytes).unwrap();
        let mut header = Trace::open(&path).unwrap().header;
        header.pid = std::process::id();
        put_residents(&path, &mut header, &[Resident { mark: 2, ranges: vec![0..4096] }]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }

    /// The folder may be one in which every user can make files: `--out-dir /tmp`.
    #[test]
    fn a_trace_that_another_user_planted_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let plant = |name: &str| fs::write(at(name), TraceBuilder::with_stacks(4096, 1).finish()).unwrap();
        ["before.trace", "own.trace"].into_iter().for_each(plant);
        std::os::unix::fs::symlink(at("own.trace"), at("link.trace")).unwrap();
        let names = |paths: Vec<PathBuf>| -> Vec<String> {
            paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let made = |was_recorded: fn(u32) -> bool| {
            let made = made(folder.path(), &[at("before.trace")], was_recorded).unwrap();
            [names(made.traces.into_iter().map(|(path, _)| path).collect()), names(made.of_others)]
        };
        assert_eq!(made(|_| true), [vec!["own.trace"], vec![]]);
        plant("planted.trace");
        if std::os::unix::fs::chown(at("planted.trace"), Some(65534), None).is_err() {
            return allocanary_testing::skipped::skipped("only root can give a file to another user");
        }
        assert_eq!(made(|_| true), [["own.trace"], ["planted.trace"]]);
        // The recorder made it as another user, in the folder for other users.
        let gathered = |user| {
            let others = others::make(folder.path()).unwrap().unwrap();
            fs::rename(at("planted.trace"), others.join("a-7-0.trace")).unwrap();
            std::os::unix::fs::chown(others.join("a-7-0.trace"), Some(user), None).unwrap();
            let made = made(|user| user == 65534);
            fs::rename(at("a-7-0.trace"), at("planted.trace")).unwrap();
            made
        };
        let [mut traces, of_others] = gathered(65534);
        traces.sort();
        assert_eq!((traces, of_others), (vec!["a-7-0.trace".to_string(), "own.trace".into()], vec![]));
        assert_eq!(gathered(65533), [["own.trace"], ["a-7-0.trace"]]);
    }
}
