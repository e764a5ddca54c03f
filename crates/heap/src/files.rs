//! What is known of mapped files. Many processes map the same libraries, and what a walker asks of one is the same in each: it is looked
//! for once. In: a file. Out: a fact.
//!
//! A fact comes from the file itself and never from a process that maps it: what one process has in its memory must not decide how
//! another is read.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Fact;

/// A file with its contents. One that is written to has another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    /// The time of modification can be set to an earlier one; this one cannot.
    changed: (i64, i64),
}

impl FileId {
    /// From what the file system says. `None` if it is no regular file.
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

/// Facts of files. `None` is a fact as well: the file does not say it.
#[derive(Debug, Default)]
struct Files(Mutex<BTreeMap<(FileId, Fact), Option<u64>>>);

/// Facts that are kept. A host maps some hundreds of files; after so many facts all are looked for again.
const MOST: usize = 4096;

impl Files {
    fn known(&self) -> MutexGuard<'_, BTreeMap<(FileId, Fact), Option<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fact, from the file if it is not known yet. The error is that of opening it.
    fn fact(&self, id: FileId, fact: Fact, open: impl FnOnce() -> io::Result<File>) -> io::Result<Option<u64>> {
        if let Some(known) = self.known().get(&(id, fact)) {
            return Ok(*known);
        }
        let file = open()?;
        // Something else may have its name by now.
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

/// The fact of a file, which is opened if nobody has asked for it before.
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
