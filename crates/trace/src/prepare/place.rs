//! The user's private folders for prepared forms. In: the environment. Out: paths, in the order in which they are
//! tried.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use allocanary_sys::private;

/// The variables that give these folders. A cell gets these and no other variables of the user, so that it finds the
/// same form.
pub const VARIABLES: [&str; 3] = ["HOME", "TMPDIR", "XDG_CACHE_HOME"];

/// The paths of a user's folders.
pub(super) struct Folders {
    pub cache: Option<PathBuf>,
    pub home: Option<PathBuf>,
    pub temporary: PathBuf,
}

impl Folders {
    /// The folders of the environment.
    pub(super) fn of_this_user() -> Folders {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Folders { cache: absolute("XDG_CACHE_HOME"), home: absolute("HOME"), temporary: std::env::temp_dir() }
    }

    /// The folders for prepared forms. `sudo` keeps the variable of the home folder, so a home folder of another user
    /// is not used. Every user can write to the folder for temporary files, and another user may have made our folder
    /// in it. So check its owner before use.
    pub(super) fn own(&self) -> Vec<PathBuf> {
        let is_ours = |path: &Path| fs::metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == private::user());
        let cache = self.cache.clone().filter(|path| is_ours(path) || !path.exists());
        let home = self.home.clone().filter(|path| is_ours(path)).map(|path| path.join(".cache"));
        let own = cache.into_iter().chain(home).map(|path| path.join("allocanary"));
        own.chain([self.temporary.join(format!("allocanary-{}", private::user()))]).collect()
    }
}
