//! Libraries that were built. In: a folder of the user's cache. Out: each library with its record, checked.
//!
//! Each library has its own folder, such as `jemalloc@5.3.0`, with `lib.so`, `built.json` and `build.log`. The record (`built.json`) is
//! written last: a folder without one is an interrupted build. A library runs in the programs of this user. So a library is ignored if
//! another user can replace it, for example in another user's HOME in the environment of root.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use allocanary_sys::private;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::builds::error::{Error, Result, file};
use crate::builds::make::{CrateSource, make};
use crate::builds::releases::Release;

/// The record of a library that was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryRecord {
    /// The allocator.
    pub allocator: String,
    /// The version in the table of releases.
    pub version: String,
    /// The version that the library reported, if it has a function for this.
    pub reported: Option<String>,
    /// The crate and its version.
    pub package: String,
    /// The library's length in bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// When it was built, in seconds since 1970.
    pub at: u64,
    /// The path. Not part of the record, because a cache can be moved.
    #[serde(skip)]
    pub library: PathBuf,
}

impl LibraryRecord {
    /// Its name as a candidate.
    pub fn name(&self) -> String {
        format!("{}@{}", self.allocator, self.version)
    }

    /// Fails if the library is not the one that was built.
    pub fn check(&self) -> Result<()> {
        let found = checksum(&self.library)?;
        if found == self.sha256 {
            return Ok(());
        }
        Err(Error::Changed { path: self.library.clone(), name: self.name(), wanted: self.sha256.clone(), found })
    }
}

/// A folder with libraries.
#[derive(Clone, Debug)]
pub struct LibraryFolder {
    folder: PathBuf,
}

impl LibraryFolder {
    /// The cache of the user: `$XDG_CACHE_HOME/allocanary/builds`, else `~/.cache/allocanary/builds`.
    pub fn of_user() -> Result<LibraryFolder> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        Ok(LibraryFolder { folder: cache.ok_or(Error::NoFolder)?.join("allocanary/builds") })
    }

    /// The cache in this folder.
    pub fn at(folder: &Path) -> LibraryFolder {
        LibraryFolder { folder: folder.into() }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fails if another user can replace files in the folder.
    pub fn check(&self) -> Result<()> {
        match private::check_path(&self.folder) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::File { path: self.folder.clone(), what: "taking libraries from it", why })
            }
            _ => Ok(()),
        }
    }

    /// All libraries, by name. A library that cannot be read is left out: it is an interrupted build, and is built again. A library
    /// that another user can replace is left out as well.
    pub fn all(&self) -> Vec<LibraryRecord> {
        if self.check().is_err() {
            return Vec::new();
        }
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut found: Vec<LibraryRecord> = entries.filter_map(|entry| read(&entry.path())).collect();
        found.sort_by_key(LibraryRecord::name);
        found
    }

    /// The library of a release, if it was built and is unchanged.
    pub fn get(&self, release: &Release) -> Option<LibraryRecord> {
        self.check().ok()?;
        read(&self.place(release)).filter(|built| built.check().is_ok())
    }

    /// Builds a release. An existing library is built again.
    pub fn build(&self, release: &Release, source: CrateSource<'_>) -> Result<LibraryRecord> {
        let place = self.place(release);
        // The path is checked first, because building takes minutes.
        if place.as_os_str().as_encoded_bytes().iter().any(|byte| b" :\t\n".contains(byte)) {
            return Err(Error::Folder(place));
        }
        fs::create_dir_all(&place).map_err(file(&place, "making the folder"))?;
        for folder in [&self.folder, &place] {
            private::keep_others_from_writing(folder).map_err(file(folder, "keeping others from writing there"))?;
        }
        self.check()?;
        // The old library stays until the new one has passed its trial, so a run that has the old one open keeps it. If two builds run
        // at the same time, the library of the last one stays. If the record is that of the other build, the checksum does not match,
        // and the library is built again.
        let own = std::process::id();
        let (library, new) = (place.join("lib.so"), place.join(format!("new-{own}.so")));
        let log = place.join(format!("build-{own}.log"));
        let made = make(release, source, &new, &log).inspect_err(|_| drop(fs::remove_file(&new)))?;
        let last_log = place.join("build.log");
        fs::rename(&log, &last_log).map_err(file(&last_log, "giving it its name"))?;
        let built = LibraryRecord {
            allocator: release.allocator.into(),
            version: release.version.into(),
            reported: made.reported,
            package: format!("{} {}", release.package, release.package_version),
            bytes: fs::metadata(&new).map_err(file(&new, "reading its length"))?.len(),
            sha256: checksum(&new)?,
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            library: library.clone(),
        };
        let record = place.join("built.json");
        let _ = fs::remove_file(&record);
        fs::rename(&new, &library).map_err(file(&library, "giving it its name"))?;
        private::keep_others_from_writing(&library).map_err(file(&library, "keeping others from writing to it"))?;
        let text = serde_json::to_string_pretty(&built).map_err(|why| Error::File {
            path: record.clone(),
            what: "writing it",
            why: why.into(),
        })?;
        private::replace(&record, (text + "\n").as_bytes()).map_err(file(&record, "writing it"))?;
        Ok(built)
    }

    /// Removes all libraries or the named ones, and returns the number of freed bytes.
    pub fn prune(&self, names: &[String]) -> Result<u64> {
        let mut bytes = 0;
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if !names.is_empty() && !names.iter().any(|name| entry.file_name().to_string_lossy() == **name) {
                continue;
            }
            let path = entry.path();
            if !path.is_dir() {
                continue;
            }
            let files = fs::read_dir(&path).into_iter().flatten().flatten();
            bytes += files.filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum::<u64>();
            fs::remove_dir_all(&path).map_err(file(&path, "removing it"))?;
        }
        Ok(bytes)
    }

    fn place(&self, release: &Release) -> PathBuf {
        self.folder.join(release.name())
    }
}

fn read(place: &Path) -> Option<LibraryRecord> {
    let record = place.join("built.json");
    private::check_path(&record).ok()?;
    let mut built: LibraryRecord = serde_json::from_slice(&fs::read(record).ok()?).ok()?;
    built.library = place.join("lib.so");
    (built.library.is_file() && private::check_path(&built.library).is_ok()).then_some(built)
}

fn checksum(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(file(path, "reading it"))?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builds::releases::find;

    fn kept(cache: &LibraryFolder, name: &str) -> LibraryRecord {
        let release = find(name).unwrap();
        let place = cache.place(&release);
        fs::create_dir_all(&place).unwrap();
        let library = place.join("lib.so");
        fs::write(&library, name).unwrap();
        let built = LibraryRecord {
            allocator: release.allocator.into(),
            version: release.version.into(),
            reported: None,
            package: release.package.into(),
            bytes: name.len() as u64,
            sha256: checksum(&library).unwrap(),
            at: 1,
            library,
        };
        fs::write(place.join("built.json"), serde_json::to_string(&built).unwrap()).unwrap();
        built
    }

    #[test]
    fn what_was_built_is_found_again_and_a_changed_library_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = LibraryFolder::at(folder.path());
        let built = kept(&cache, "jemalloc@5.3.0");
        let release = find("jemalloc@5.3.0").unwrap();
        assert_eq!(cache.get(&release), Some(built.clone()));
        fs::write(&built.library, "another").unwrap();
        assert_eq!(cache.get(&release), None);
        let error = built.check().unwrap_err().to_string();
        assert!(error.contains(&built.sha256) && error.contains("allocanary build jemalloc@5.3.0"), "{error}");
    }

    #[test]
    fn a_folder_that_no_preload_can_have_is_refused_before_anything_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let error =
            LibraryFolder::at(&folder.path().join("a b")).build(&find("jemalloc").unwrap(), CrateSource::default());
        assert!(error.unwrap_err().to_string().contains("XDG_CACHE_HOME"));
        assert!(!folder.path().join("a b").exists());
    }

    #[test]
    fn a_library_that_another_user_can_exchange_is_not_there() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let folder = tempfile::tempdir().unwrap();
        let cache = LibraryFolder::at(folder.path());
        let built = kept(&cache, "jemalloc@5.3.0");
        let release = find("jemalloc@5.3.0").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for path in [built.library.as_path(), built.library.parent().unwrap()] {
            let before = path.metadata().unwrap().permissions().mode();
            set(path, 0o777);
            assert_eq!((cache.all(), cache.get(&release)), (Vec::new(), None), "{}", path.display());
            set(path, before);
            assert_eq!(cache.get(&release), Some(built.clone()));
        }
        assert!(cache.check().is_ok());
        if chown(folder.path(), Some(65534), None).is_ok() {
            assert_eq!(cache.all(), []);
            let error = cache.check().unwrap_err().to_string();
            assert!(error.contains("belongs to user 65534"), "{error}");
        }
    }

    #[test]
    fn an_interrupted_build_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = LibraryFolder::at(folder.path());
        let built = kept(&cache, "jemalloc@5.3.0");
        fs::remove_file(built.library.with_file_name("built.json")).unwrap();
        assert_eq!((cache.all(), cache.get(&find("jemalloc@5.3.0").unwrap())), (Vec::new(), None));
    }

    #[test]
    fn prune_removes_those_that_are_named_and_tells_their_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = LibraryFolder::at(folder.path());
        kept(&cache, "jemalloc@5.3.0");
        let stays = kept(&cache, "mimalloc@2.2.5");
        assert!(cache.prune(&["jemalloc@5.3.0".into()]).unwrap() > 14);
        assert_eq!(cache.all(), [stays]);
        fs::write(folder.path().join("a file"), "").unwrap();
        cache.prune(&[]).unwrap();
        assert_eq!(cache.all(), []);
    }
}
