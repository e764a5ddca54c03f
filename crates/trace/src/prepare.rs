//! The form of a trace that a replay executes. In: a trace. Out: a file of operations of 16 bytes, thread by thread. It
//! is mapped and executed without decoding.
//!
//! Every block has a slot in a table. Each use of a slot has a generation, so that no thread takes a wrong block. The
//! merged order is cut into epochs of some hundred operations. A thread may be at most a few epochs ahead of the
//! slowest thread. No operation waits for one that is later in the trace, so there is no deadlock.
//!
//! The file has a header of 4096 bytes, operations in runs of one thread each, then the tables that the header points
//! to. Only the version of this program that made a form reads it. Another version makes the form again.
//!
//! The file is next to the trace or, if that is not possible, in a private folder of the user. Other users may be able
//! to write to the folder of a trace. So a form is used only if this user owns it, and if its header says that it was
//! made from this trace.

mod elsewhere;
mod place;
mod slots;
mod writer;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use allocanary_sys::private;

pub use self::elsewhere::Elsewhere;
use self::place::Folders;
pub use self::place::VARIABLES;
pub use self::slots::FreeSlots;
use self::writer::Writer;
use crate::error::{Error, Result};
use crate::format::Marks;
use crate::layout::HEADER;
use crate::mapped::PreparedTrace;
use crate::merge::{Merged, merge};
use crate::origin::Origin;
use crate::reader::Trace;

/// A thread of the replay, as its lane in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// The number of the thread, in the order of first events.
    pub thread: u32,
    /// Its runs: the offset in the file, and the number of operations.
    pub runs: Vec<(u64, u32)>,
    /// The epoch in which it begins.
    pub first: u32,
    /// The epoch in which it ends; `u32::MAX` if it lives to the end.
    pub last: u32,
}

/// A summary of a prepared trace.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The number of operations.
    pub operations: u64,
    /// The number of threads.
    pub threads: u64,
    /// The most live bytes at a mark.
    pub peak_live: u64,
    /// The length of the trace in nanoseconds.
    pub nanos: u64,
    /// The program's highest RssAnon, in bytes.
    pub most_resident: u64,
    /// RssAnon of the program at its last reading, in bytes.
    pub last_resident: u64,
    /// One block in this many was recorded.
    pub rate: u64,
}

/// The prepared form of a trace, which is made if it does not exist. The marks `asked` replace those of the trace.
pub fn prepare(trace: &Path, asked: Marks) -> Result<PreparedTrace> {
    prepare_in(&Folders::of_this_user(), trace, asked)
}

/// The prepared form of a trace, if there is one.
pub fn find(trace: &Path, asked: Marks) -> Result<Option<PreparedTrace>> {
    find_in(&Folders::of_this_user(), trace, asked)
}

fn find_in(folders: &Folders, trace: &Path, asked: Marks) -> Result<Option<PreparedTrace>> {
    let file = File::open(trace).map_err(|error| Error::file(trace, "opening the trace", error))?;
    let origin = Origin::of(&file, asked).map_err(|error| Error::file(trace, "reading the trace", error))?;
    let own = folders.own().into_iter().filter(|folder| private::check_folder(folder).is_ok());
    let paths = std::iter::once(origin.beside(trace)).chain(own.map(|folder| folder.join(origin.name(trace))));
    Ok(paths.into_iter().find_map(|path| PreparedTrace::open_of(&path, &origin).ok()))
}

fn prepare_in(folders: &Folders, trace: &Path, asked: Marks) -> Result<PreparedTrace> {
    if let Some(found) = find_in(folders, trace, asked)? {
        return Ok(found);
    }
    let source = Trace::open(trace)?;
    let origin = Origin::of(source.file(), asked).map_err(|error| Error::file(trace, "reading the trace", error))?;
    let mut refused = match make(&source, &origin, &origin.beside(trace), asked) {
        Err(Failed::Place(path, error)) => format!("{}: {error}", path.display()),
        Err(Failed::Trace(error)) => return Err(error),
        Ok(made) => return Ok(made),
    };
    for folder in folders.own() {
        let ready = private::make_folder(&folder).and_then(|()| private::check_folder(&folder));
        let ready = ready.map_err(|error| Failed::Place(folder.clone(), error));
        match ready.and_then(|()| make(&source, &origin, &folder.join(origin.name(trace)), asked)) {
            Err(Failed::Place(path, error)) => refused.push_str(&format!("; {}: {error}", path.display())),
            Err(Failed::Trace(error)) => return Err(error),
            Ok(made) => return Ok(made),
        }
    }
    Err(Error::new(format!(
        "{}: there is no folder for the prepared trace: {refused}: remove what is in the way, or set XDG_CACHE_HOME to a \
         folder of your own",
        trace.display()
    )))
}

/// Why a form was not made.
enum Failed {
    /// No form can be made at this path, but perhaps in another folder.
    Place(PathBuf, io::Error),
    Trace(Error),
}

/// Makes a prepared form at a path. It is written under another name, and renamed when it is complete.
fn make(source: &Trace, origin: &Origin, path: &Path, asked: Marks) -> std::result::Result<PreparedTrace, Failed> {
    let place = |error| Failed::Place(path.into(), error);
    let (file, part) = private::new_file_in(private::folder_of(path)).map_err(place)?;
    // On some network file systems the files that we make belong to another user. A form there would never be used.
    let made = private::check_own(&file).map_err(place).and_then(|()| {
        write_to(source, origin, &file, path, asked, &Elsewhere::default()).map_err(Failed::Trace)?;
        std::fs::rename(&part, path).map_err(place)?;
        PreparedTrace::map(&file, path).map_err(Failed::Trace)
    });
    made.inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })
}

/// Writes the prepared form of a trace to a file, for tests and benches. The marks `asked` replace those of the trace.
pub fn write(trace: &Trace, path: &Path, asked: Marks) -> Result<Merged> {
    let file = private::replace(path, b"").map_err(|error| Error::file(path, "writing the prepared trace", error))?;
    write_elsewhere(trace, &file, path, asked, &Elsewhere::default())
}

/// Like [`write()`], with the blocks of these events in a pool: see [`Pool`](crate::replay::Pool). Writes to the open,
/// empty file even if the path leads to another file by now, because other users may be able to write to the folder.
/// The path is for errors. Other replays do not look for a form at this path, so they do not take it for the trace's
/// normal form.
pub fn write_elsewhere(trace: &Trace, file: &File, path: &Path, asked: Marks, elsewhere: &Elsewhere) -> Result<Merged> {
    let origin =
        Origin::of(trace.file(), asked).map_err(|error| Error::file(trace.path(), "reading the trace", error))?;
    write_to(trace, &origin, file, path, asked, elsewhere)
}

/// Opens a form that [`write_elsewhere`] wrote, if it was made from the present state of this trace and with these
/// marks.
pub fn open_elsewhere(form: &Path, trace: &Path, asked: Marks) -> Result<PreparedTrace> {
    let file = File::open(trace).map_err(|error| Error::file(trace, "opening the trace", error))?;
    let origin = Origin::of(&file, asked).map_err(|error| Error::file(trace, "reading the trace", error))?;
    PreparedTrace::open_of(form, &origin)
}

fn write_to(
    trace: &Trace,
    origin: &Origin,
    file: &File,
    path: &Path,
    asked: Marks,
    elsewhere: &Elsewhere,
) -> Result<Merged> {
    let failed = |error: io::Error| Error::file(path, "writing the prepared trace", error);
    let file = file.try_clone().map_err(failed)?;
    let out = BufWriter::with_capacity(1 << 18, file);
    let mut writer = Writer::new(out, wanted(trace.header.marks, asked), elsewhere);
    writer.out.write_all(&[0; HEADER as usize]).map_err(failed)?;
    let merged = merge(trace, &mut writer)?;
    writer.finish(trace, origin, &merged).map_err(failed)?;
    Ok(merged)
}

/// The requested marks and, where none is requested, the trace's own marks. The search for the peak ends at the mark of
/// the load's end. A mark of the trace that is on the wrong side of a requested one is left out.
fn wanted(own: Marks, asked: Marks) -> Marks {
    let end = asked.peak.or(asked.idle);
    let ready = own.ready.filter(|ready| end.is_none_or(|end| *ready < end));
    let peak = own.peak.filter(|peak| asked.idle.is_none_or(|idle| *peak < idle));
    let idle = own.idle.filter(|idle| asked.peak.is_none_or(|peak| *idle > peak));
    Marks { ready: asked.ready.or(ready), peak: asked.peak.or(peak), idle: asked.idle.or(idle) }
}

#[cfg(test)]
mod tests;
