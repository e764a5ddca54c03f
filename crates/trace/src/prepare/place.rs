//! Folders of the user's own for prepared forms. In: the environment. Out: paths, in the order in which they are tried.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use allocanary_kernel::private;

/// The variables that say where these folders are. A cell gets no others of the user's, and must find the same form.
pub const VARIABLES: [&str; 3] = ["HOME", "TMPDIR", "XDG_CACHE_HOME"];

/// Where a user's folders are.
pub(super) struct Folders {
    pub cache: Option<PathBuf>,
    pub home: Option<PathBuf>,
    pub temporary: PathBuf,
}

impl Folders {
    /// As the environment says.
    pub(super) fn of_this_user() -> Folders {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Folders { cache: absolute("XDG_CACHE_HOME"), home: absolute("HOME"), temporary: std::env::temp_dir() }
    }

    /// The folders for prepared forms. A home of another user (`sudo` keeps the variable) is left alone. The folder for
    /// temporary files is everybody's: another user may have made the one there, so whoever takes it looks first.
    pub(super) fn own(&self) -> Vec<PathBuf> {
        let is_ours = |path: &Path| fs::metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == private::user());
        let cache = self.cache.clone().filter(|path| is_ours(path) || !path.exists());
        let home = self.home.clone().filter(|path| is_ours(path)).map(|path| path.join(".cache"));
        let own = cache.into_iter().chain(home).map(|path| path.join("allocanary"));
        own.chain([self.temporary.join(format!("allocanary-{}", private::user()))]).collect()
    }
}
