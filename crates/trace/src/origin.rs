//! Identifies the trace from which a prepared form was made. In: a trace, marks. Out: words for the form's header, and
//! the form's names.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use allocanary_sys::fnv::Fnv;

use crate::format::{HEADER, Marks, at};

/// The trace's length, the time of its file, the header fields that do not change during the recording, and the
/// requested marks. Events are not read, because for a large trace this would take seconds in each cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin([u64; 6]);

impl Origin {
    /// The origin of a trace in its present state.
    pub(crate) fn of(trace: &File, asked: Marks) -> io::Result<Origin> {
        let meta = trace.metadata()?;
        let mut header = [0; HEADER];
        let length = trace.read_at(&mut header, 0)?;
        // The other fields change with every reading of the memory of a running process.
        let kept = [0..at::USED, at::LIMIT..at::STATE, at::RATE..at::LAST_TICKS, at::PAGE..at::LOST];
        let kept = kept.into_iter().chain([at::WINDOW..at::HORIZON, at::RING..HEADER]);
        let mut hash = Fnv::default();
        kept.for_each(|range| hash.add(&header[range.start.min(length)..range.end.min(length)]));
        let nanos = meta.mtime().wrapping_mul(1_000_000_000).wrapping_add(meta.mtime_nsec());
        let [ready, peak, idle] = [asked.ready, asked.peak, asked.idle].map(|mark| mark.unwrap_or(u64::MAX));
        Ok(Origin([meta.len(), nanos as u64, hash.value(), ready, peak, idle]))
    }

    /// The origin as words of the form's header.
    pub(crate) fn words(&self) -> [u64; 6] {
        self.0
    }

    /// The path of the form if it is next to the trace.
    pub(crate) fn beside(&self, trace: &Path) -> PathBuf {
        let name = trace.file_name().unwrap_or_default().to_string_lossy();
        trace.with_file_name(format!(".{name}.{:016x}.replay", self.key(&[])))
    }

    /// The file name of the form in a folder that has forms of traces from several folders.
    pub(crate) fn name(&self, trace: &Path) -> String {
        let whole = trace.canonicalize().unwrap_or_else(|_| trace.into());
        let name = whole.file_name().unwrap_or_default().to_string_lossy();
        format!("{name}.{:016x}.replay", self.key(whole.as_os_str().as_encoded_bytes()))
    }

    fn key(&self, path: &[u8]) -> u64 {
        let mut hash = Fnv::default();
        hash.add(self.0.map(u64::to_le_bytes).as_flattened());
        hash.add(path);
        hash.value()
    }
}
