//! Traces of processes that have changed their user, in a service that root starts. In: the folder of the traces. Out: a folder in it in
//! which any user may make a file. Later, the traces from this folder, moved to the folder of the traces.
//!
//! Other users may pass through the folder of the traces, but cannot list it, and the name of the inner folder is random. In the inner
//! folder, users can make files, but cannot touch those of other users. The recorder makes no links and no files with a second name, so
//! such a file is removed.

use std::fs::{self, DirBuilder, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use allocanary_sys::private::user;

/// The begin of the inner folder's name.
const NAME: &str = ".others-";
/// Any user may make files in the inner folder. Only its owner can list it. Users can remove only their own files.
const MODE: u32 = 0o1733;

/// Makes the folder for other users, or finds an existing one. `None` if this process does not run as root, because then no program can
/// change its user.
pub(super) fn make(folder: &Path) -> io::Result<Option<PathBuf>> {
    if user() != 0 {
        return Ok(None);
    }
    if let Some(found) = all(folder).find(|path| is_ours(path)) {
        return Ok(Some(found));
    }
    // The keys of these hashes are random, so the name is random.
    let [one, other] = [(); 2].map(|()| RandomState::new().build_hasher().finish());
    let path = folder.join(format!("{NAME}{one:016x}{other:016x}"));
    DirBuilder::new().mode(0o700).create(&path)?;
    // The mode is set explicitly, because the process's umask would change it.
    fs::set_permissions(&path, Permissions::from_mode(MODE))?;
    Ok(Some(path))
}

fn all(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes())).map(|entry| entry.path())
}

fn is_ours(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == user() && meta.mode() & 0o7777 == MODE)
}

/// Moves the traces of other users to the folder of the traces, and then removes the inner folder if it is empty. Returns the moved traces.
pub fn gather(folder: &Path) -> Vec<PathBuf> {
    let mut moved = Vec::new();
    for others in all(folder).filter(|path| is_ours(path)) {
        for entry in fs::read_dir(&others).into_iter().flatten().flatten() {
            let from = entry.path();
            let is_trace = from.extension().is_some_and(|ending| ending == "trace");
            let Some(to) = is_trace.then(|| free_name(folder, &from)).flatten() else { continue };
            // The file is checked after the move, when its owner can no longer replace it.
            if fs::rename(&from, &to).is_ok() {
                match fs::symlink_metadata(&to).is_ok_and(|meta| meta.is_file() && meta.nlink() == 1) {
                    true => moved.push(to),
                    false => drop(fs::remove_file(&to)),
                }
            }
        }
        // This fails for a folder that is not empty, which stays.
        let _ = fs::remove_dir(&others);
    }
    moved
}

/// A free name in the folder. A process may change its user and then execute another program, so that both folders have traces of the same
/// name. The name ends with a number, and the next free number is used.
fn free_name(folder: &Path, from: &Path) -> Option<PathBuf> {
    let stem = from.file_stem()?.to_str()?;
    let (name, number) = stem.rsplit_once('-')?;
    let first: u32 = number.parse().ok()?;
    let names = (first..first.saturating_add(10_000)).map(|number| folder.join(format!("{name}-{number}.trace")));
    names.into_iter().find(|to| to.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_moved_and_links_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let Some(others) = make(folder.path()).unwrap() else {
            assert_ne!(user(), 0, "root has one");
            return;
        };
        assert_eq!(make(folder.path()).unwrap(), Some(others.clone()), "the same again");
        assert_eq!(fs::metadata(&others).unwrap().mode() & 0o7777, MODE);
        let secret = folder.path().join("secret");
        fs::write(&secret, "root's").unwrap();
        fs::write(others.join("a-7-0.trace"), "a").unwrap();
        fs::write(folder.path().join("b-7-0.trace"), "first").unwrap();
        fs::write(others.join("b-7-0.trace"), "second").unwrap();
        std::os::unix::fs::symlink(&secret, others.join("c-7-0.trace")).unwrap();
        fs::hard_link(&secret, others.join("d-7-0.trace")).unwrap();
        assert_eq!(gather(folder.path()).len(), 2);
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
        let found = ["a-7-0.trace", "b-7-0.trace", "b-7-1.trace"].map(read);
        assert_eq!(found, ["a", "first", "second"].map(|text| Some(text.to_string())));
        assert_eq!([read("c-7-0.trace"), read("d-7-0.trace")], [None, None]);
        assert_eq!(read("secret").as_deref(), Some("root's"));
        assert!(!others.exists());
    }
}
