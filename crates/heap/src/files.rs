//! Facts about mapped files. In: a file. Out: a fact. Many processes map the same libraries, and a fact about a file is
//! the same in each of them. So it is read only once.
//!
//! A fact comes from the file itself and never from a process that maps it: the memory of one process must not
//! influence how another one is read.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Fact;

/// A file with its present content. If the file is written to, its times change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    /// The time of the last change of the file's data or attributes. A user can set the time of modification back, but
    /// not this time.
    changed: (i64, i64),
}

impl FileId {
    /// Makes it from the file system's data. `None` if it is not a regular file.
    pub fn of(found: &Metadata) -> Option<FileId> {
        found.is_file().then(|| FileId {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Facts about files. `None` is also a fact: the file does not have it.
#[derive(Debug, Default)]
struct Files(Mutex<BTreeMap<(FileId, Fact), Option<u64>>>);

/// The most facts that are kept. A host maps some hundreds of files. When there are this many facts, all are forgotten.
const MOST: usize = 4096;

impl Files {
    fn known(&self) -> MutexGuard<'_, BTreeMap<(FileId, Fact), Option<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fact. If it is not known yet, it is read from the file. The error is that of opening the file.
    fn fact(&self, id: FileId, fact: Fact, open: impl FnOnce() -> io::Result<File>) -> io::Result<Option<u64>> {
        if let Some(known) = self.known().get(&(id, fact)) {
            return Ok(*known);
        }
        let file = open()?;
        // By now another file may have this name.
        if FileId::of(&file.metadata()?) != Some(id) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "another file has its name"));
        }
        let found = fact.look_for(&file);
        let mut known = self.known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert((id, fact), found);
        Ok(found)
    }
}

static FILES: Files = Files(Mutex::new(BTreeMap::new()));

/// The fact about a file. The file is opened only if the fact is not known yet.
pub fn fact(id: FileId, fact: Fact, open: impl FnOnce() -> io::Result<File>) -> io::Result<Option<u64>> {
    FILES.fact(id, fact, open)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_opened_once_until_it_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libc");
        let files = Files::default();
        let mut opened = 0;
        let mut ask = |fact| {
            let id = FileId::of(&fs::metadata(&path).unwrap()).unwrap();
            let open = || {
                opened += 1;
                File::open(&path)
            };
            let found = files.fact(id, fact, open).unwrap();
            (found, opened)
        };
        fs::write(&path, "GNU C Library stable release version 2.36.").unwrap();
        assert_eq!(ask(Fact::Release), (Some(36), 1));
        assert_eq!(ask(Fact::Release), (Some(36), 1));
        assert_eq!(
            (ask(Fact::Extent), ask(Fact::Extent)),
            ((None, 2), (None, 2)),
            "that it says nothing is known, too"
        );
        fs::write(&path, "GNU C Library stable release version 2.4.").unwrap();
        assert_eq!(ask(Fact::Release), (Some(4), 3));
    }

    #[test]
    fn another_file_in_its_place_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "b"].map(|name| folder.path().join(name));
        [&path, &other].iter().for_each(|path| fs::write(path, " release version 2.36.").unwrap());
        let id = FileId::of(&fs::metadata(&path).unwrap()).unwrap();
        let files = Files::default();
        assert!(files.fact(id, Fact::Release, || File::open(&other)).is_err());
        assert_eq!(files.fact(id, Fact::Release, || File::open(&path)).unwrap(), Some(36));
        assert_eq!(FileId::of(&fs::metadata(folder.path()).unwrap()), None, "a directory has no facts");
    }
}
