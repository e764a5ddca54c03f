//! Finds allocators of other projects that this host has as libraries: for each its name, version, path, and the settings that it takes.
//!
//! No library is loaded or run. The version is in the library's text, or else at the end of its file's name. The table for a version lists
//! settings. A library takes only settings whose names occur in its file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use allocanary_facts::ALL;
use allocanary_facts::environment::Environment;
use allocanary_facts::library::LibraryKind;
use allocanary_facts::setting::Setting;
use allocanary_sys::elf::check_loadable;
use allocanary_sys::input;

use cache::libraries;

pub(crate) mod cache;

/// An allocator of another project, as a library on this host.
#[derive(Clone, Debug, PartialEq)]
pub struct Installed {
    /// Its name as a candidate: `tcmalloc`, or `jemalloc@5.3.0` if this crate has an allocator of that name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The library.
    pub path: PathBuf,
    /// The settings that it takes.
    pub settings: Vec<Setting>,
    /// How it reads settings.
    pub environment: Environment,
    /// The name of the reader of `preload-prove` that reads its settings back.
    pub reader: &'static str,
}

/// The allocators of this host that its programs can load. `ours` are the names that are already used.
pub fn installed(ours: &[&str]) -> Vec<Installed> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for path in libraries() {
        let Some(kind) = kind_of(&path) else { continue };
        let path = path.canonicalize().unwrap_or(path);
        if !seen.insert(path.clone()) || check_loadable(&path).is_err() {
            continue;
        }
        let Ok(bytes) = input::bytes(&path) else { continue };
        all.push(of(kind, &path, &bytes, ours, None));
    }
    // If two libraries have the same version, the loader takes the first one.
    let mut names = BTreeSet::new();
    all.retain(|one: &Installed| names.insert(one.name.clone()));
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// A library that was built for this user, whose allocator and version are known. `None` if this crate does not know the allocator, or if
/// the file cannot be read.
pub fn built(allocator: &str, version: &str, path: &Path) -> Option<Installed> {
    let kind = kinds().find(|kind| kind.name == allocator)?;
    let name = format!("{allocator}@{version}");
    Some(Installed { name, ..of(kind, path, &input::bytes(path).ok()?, &[], Some(version)) })
}

/// The kind of library, by the file's name: `libjemalloc.so.2`.
fn kind_of(path: &Path) -> Option<&'static LibraryKind> {
    let (name, _) = path.file_name()?.to_str()?.split_once(".so")?;
    kinds().find(|kind| kind.files.contains(&name))
}

fn kinds() -> impl Iterator<Item = &'static LibraryKind> {
    ALL.iter().flat_map(|one| one.libraries)
}

/// `known` is the library's version, if the caller knows it.
fn of(kind: &LibraryKind, path: &Path, bytes: &[u8], ours: &[&str], known: Option<&str>) -> Installed {
    let named = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    // `libmimalloc.so.2.0`: the version is the number. A file without a number has its name as its version.
    let by_name = || match named.split_once(".so.") {
        Some((_, number)) => number.to_string(),
        None => named.clone(),
    };
    let version = known.map(str::to_string).or_else(|| (kind.version)(bytes)).unwrap_or_else(by_name);
    let name = match ours.contains(&kind.name) {
        true => format!("{}@{version}", kind.name),
        false => kind.name.to_string(),
    };
    let knows = |setting: &Setting| find(bytes, format!("{}\0", kind.word(setting)).as_bytes()).is_some();
    Installed {
        name,
        path: path.to_path_buf(),
        settings: kind.settings(&version).filter(|setting| knows(setting)).cloned().collect(),
        version,
        environment: kind.environment.clone(),
        reader: kind.reader,
    }
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(file: &str, text: &str) -> Installed {
        let path = Path::new("/lib").join(file);
        of(kind_of(&path).unwrap(), &path, text.as_bytes(), &["system", "jemalloc", "mimalloc"], None)
    }

    fn names(found: &Installed) -> Vec<&str> {
        found.settings.iter().map(|setting| setting.name.as_ref()).collect()
    }

    #[test]
    fn a_library_that_was_built_has_the_name_of_its_version() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "x\0purge_delay\0").unwrap();
        let found = built("mimalloc", "2.2.5", file.path()).unwrap();
        assert_eq!(
            (found.name.as_str(), found.version.as_str(), names(&found)),
            ("mimalloc@2.2.5", "2.2.5", vec!["purge_delay"])
        );
        assert_eq!(built("nothing", "1", file.path()), None);
    }

    #[test]
    fn a_library_says_its_version_and_the_settings_that_it_knows() {
        let text = "x\x005.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c\0narenas\0tcache\0";
        let found = made("libjemalloc.so.2", text);
        assert_eq!((found.name.as_str(), found.version.as_str()), ("jemalloc@5.3.0", "5.3.0"));
        assert_eq!(names(&found), ["narenas", "tcache"]);
        assert!(found.environment.owns("MALLOC_CONF"));
        let found = made("libtcmalloc_minimal.so.4.5.10", "\0gperftools 2.10\0TCMALLOC_HEAP_LIMIT_MB\0release_rate\0");
        assert_eq!((found.name.as_str(), found.version.as_str()), ("tcmalloc_minimal", "2.10"));
        assert_eq!(names(&found), ["heap_limit_mb"], "a name without its beginning is none of its variables");
        let found = made("libmimalloc.so.2.0", "decommit_delay\0deprecated_purge_delay\0");
        assert_eq!((found.name.as_str(), names(&found)), ("mimalloc@2.0", vec!["decommit_delay"]));
    }

    #[test]
    fn a_library_without_a_version_is_named_by_its_file() {
        assert_eq!(made("libsnmallocshim.so", "").version, "libsnmallocshim.so");
        assert_eq!(made("libjemalloc.so.2", "5.3.0-rc1\0").name, "jemalloc@2");
    }

    #[test]
    fn other_libraries_are_none() {
        for file in ["libtcmalloc_debug.so.4", "libabsl_malloc_internal.so.2", "libc.so.6", "libjemalloc"] {
            assert!(kind_of(Path::new(file)).is_none(), "{file}");
        }
    }
}
