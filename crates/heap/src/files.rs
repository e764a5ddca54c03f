//! Reads facts about mapped files, and keeps them. Many processes map the same libraries, and a fact about a file is the same in each of
//! them. So it is read only once.
//!
//! A fact comes from the file itself and never from a process that maps it: the memory of one process must not
//! influence how another one is read.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use allocanary_process::{Opened, Stamp};

use crate::Fact;

/// Facts about files. `None` is also a fact: the file does not contain it.
#[derive(Debug, Default)]
struct Files(Mutex<BTreeMap<(Stamp, Fact), Option<u64>>>);

/// The most facts that are kept. A host maps a few hundred files. At this number all facts are forgotten.
const MOST: usize = 4096;

impl Files {
    fn known(&self) -> MutexGuard<'_, BTreeMap<(Stamp, Fact), Option<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fact. It is read from the file if this is the first time.
    fn fact(&self, opened: &Opened, fact: Fact) -> Option<u64> {
        let key = (opened.stamp, fact);
        if let Some(known) = self.known().get(&key) {
            return *known;
        }
        let found = fact.look_for(&opened.file, opened.stamp.bytes);
        let mut known = self.known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, found);
        found
    }
}

static FILES: Files = Files(Mutex::new(BTreeMap::new()));

/// The fact about a file. The file is read only if the fact is not known yet.
pub fn fact(opened: &Opened, fact: Fact) -> Option<u64> {
    FILES.fact(opened, fact)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, write};

    use super::*;

    #[test]
    fn a_fact_is_read_once_until_the_file_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libc");
        let files = Files::default();
        let ask = |modified: i64, fact| {
            let file = File::open(&path).unwrap();
            let bytes = file.metadata().unwrap().len();
            let (modified, changed) = ((modified, 0), (modified, 0));
            let stamp = Stamp { device: (1, 2), inode: 3, bytes, modified, changed, is_quick: true };
            files.fact(&Opened { file, stamp }, fact)
        };
        write(&path, "GNU C Library stable release version 2.36.").unwrap();
        assert_eq!((ask(1, Fact::Release), ask(1, Fact::Extent)), (Some(36), None));
        // Of the same length, and by its times the same file.
        write(&path, "GNU C Library stable release version 2.35.").unwrap();
        assert_eq!(ask(1, Fact::Release), Some(36));
        assert_eq!(ask(2, Fact::Release), Some(35));
    }
}
