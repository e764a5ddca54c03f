//! The form of a trace that is replayed. In: a trace. Out: a file of operations of 16 bytes, thread by thread, that is
//! mapped and executed without decoding.
//!
//! Every block has a slot of a table. A slot that is used again carries a generation: no thread takes another's block.
//! The merged order is cut into epochs of some hundred operations; a thread begins an epoch only when all threads have
//! finished the epochs before the last few. So threads cannot run away from each other, and waiting follows the order of
//! the trace, in which nothing waits for something later.
//!
//! The file: a header of 4096 bytes, operations in runs of one thread each, then the tables that the header points to.
//! It belongs to one version of this program and is made again where it does not fit; the trace is the format that lasts.

mod writer;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use self::writer::Writer;
use crate::error::{Error, Result};
use crate::format::Marks;
use crate::layout::HEADER;
use crate::merge::{Merged, merge};
use crate::reader::Trace;

/// A thread of the replay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// The thread, in the order of their first events.
    pub thread: u32,
    /// Its runs: offset in the file and operations.
    pub runs: Vec<(u64, u32)>,
    /// The epoch in which it begins.
    pub first: u32,
    /// The epoch in which it ends; `u32::MAX` if it lives to the end.
    pub last: u32,
}

/// A summary of what was prepared.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Operations of the replay.
    pub operations: u64,
    /// Threads.
    pub threads: u64,
    /// The most live bytes at a mark.
    pub peak_live: u64,
    /// The length of the trace in nanoseconds.
    pub nanos: u64,
    /// RssAnon of the program at its highest reading, in bytes.
    pub most_resident: u64,
    /// RssAnon of the program at its last reading, in bytes.
    pub last_resident: u64,
    /// One block in this many was recorded.
    pub rate: u64,
}

/// The path of the prepared form: next to the trace, or, where that folder cannot be written, in the folder for
/// temporary files.
pub fn path_of(trace: &Path, asked: Marks) -> Result<PathBuf> {
    let name = trace.file_name().unwrap_or_default().to_string_lossy();
    let metadata = std::fs::metadata(trace).map_err(|error| Error::file(trace, "opening the trace", error))?;
    let changed = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let mut key = changed.unwrap_or_default().as_nanos() as u64 ^ metadata.len().rotate_left(32);
    for mark in [asked.ready, asked.peak, asked.idle] {
        key = (key.rotate_left(21) ^ mark.unwrap_or(0)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    let beside = trace.with_file_name(format!(".{name}.{key:016x}.replay"));
    let folder = beside.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if beside.exists() || tempfile_in(folder) {
        return Ok(beside);
    }
    let whole = trace.canonicalize().unwrap_or_else(|_| trace.into());
    let mut hash = key;
    for byte in whole.as_os_str().as_encoded_bytes() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    Ok(std::env::temp_dir().join(format!("allocanary-{hash:016x}.replay")))
}

/// Whether a file can be made in a folder.
fn tempfile_in(folder: &Path) -> bool {
    let probe = folder.join(format!(".allocanary-{}", std::process::id()));
    let made = File::create_new(&probe).is_ok();
    let _ = std::fs::remove_file(&probe);
    made
}

/// Prepares a trace, unless it is prepared already. Returns the path of the prepared form. The marks that are asked for
/// replace those of the trace.
pub fn prepare(trace: &Path, asked: Marks) -> Result<PathBuf> {
    let path = path_of(trace, asked)?;
    if crate::mapped::Prepared::open(&path).is_ok() {
        return Ok(path);
    }
    let source = Trace::open(trace)?;
    let part = path.with_extension(format!("part{}", std::process::id()));
    let written = write(&source, &part, asked).and_then(|_| {
        std::fs::rename(&part, &path).map_err(|error| Error::file(&path, "writing the prepared trace", error))
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written.map(|()| path)
}

/// Writes the prepared form of a trace to a file. The marks that are asked for replace those of the trace.
pub fn write(trace: &Trace, path: &Path, asked: Marks) -> Result<Merged> {
    let failed = |error: std::io::Error| Error::file(path, "writing the prepared trace", error);
    let file = File::create(path).map_err(failed)?;
    let mut writer = Writer::new(BufWriter::with_capacity(1 << 18, file), wanted(trace.header.marks, asked));
    writer.out.write_all(&[0; HEADER as usize]).map_err(failed)?;
    let merged = merge(trace, &mut writer)?;
    writer.finish(trace, &merged).map_err(failed)?;
    Ok(merged)
}

/// The marks that are asked for, and those of the trace for the others. The search for the peak ends at one of them: a mark
/// of the trace on its wrong side is left out.
fn wanted(own: Marks, asked: Marks) -> Marks {
    let end = asked.peak.or(asked.idle);
    let ready = own.ready.filter(|ready| end.is_none_or(|end| *ready < end));
    let peak = own.peak.filter(|peak| asked.idle.is_none_or(|idle| *peak < idle));
    let idle = own.idle.filter(|idle| asked.peak.is_none_or(|peak| *idle > peak));
    Marks { ready: asked.ready.or(ready), peak: asked.peak.or(peak), idle: asked.idle.or(idle) }
}
