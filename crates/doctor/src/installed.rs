//! The allocators of others that this host has as libraries. In: the loader's cache, and the libraries as files. Out: for each its
//! name, version, path, and the settings that it knows.
//!
//! Nothing is loaded or run. A version is what the library says in its text, or else the end of its file's name. A setting is one of
//! the tables' for this version, whose name stands in the library: what it does not know stands nowhere in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use allocanary_allocators::environment::Environment;
use allocanary_allocators::setting::Setting;
use allocanary_kernel::elf::check_loadable;

use cache::libraries;
use tables::{SORTS, Sort};

mod cache;
mod tables;

/// An allocator of somebody else's.
#[derive(Clone, Debug, PartialEq)]
pub struct Installed {
    /// Its name as a candidate: `tcmalloc`, or `jemalloc@5.3.0` where this crate has an allocator of that name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The library.
    pub path: PathBuf,
    /// What it can be told.
    pub settings: Vec<Setting>,
    /// How it is told.
    pub environment: Environment,
    /// How it is asked: the name of a reader of our library `preload-prove`.
    pub reader: &'static str,
}

/// The allocators of this host that its programs can load. `ours` are the names that are taken.
pub fn installed(ours: &[&str]) -> Vec<Installed> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for path in libraries() {
        let Some(sort) = sort_of(&path) else { continue };
        let path = path.canonicalize().unwrap_or(path);
        if !seen.insert(path.clone()) || check_loadable(&path).is_err() {
            continue;
        }
        let Ok(bytes) = fs::read(&path) else { continue };
        all.push(of(sort, &path, &bytes, ours, None));
    }
    // Of two libraries of one version the loader takes the first.
    let mut names = BTreeSet::new();
    all.retain(|one: &Installed| names.insert(one.name.clone()));
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// A library that was built for this user: its allocator and version are known. `None` if nothing is known of such an allocator, or the file
/// cannot be read.
pub fn built(allocator: &str, version: &str, path: &Path) -> Option<Installed> {
    let sort = SORTS.iter().find(|sort| sort.allocator == allocator)?;
    let name = format!("{allocator}@{version}");
    Some(Installed { name, ..of(sort, path, &fs::read(path).ok()?, &[], Some(version)) })
}

/// What kind of library a file is, by its name: `libjemalloc.so.2`.
fn sort_of(path: &Path) -> Option<&'static Sort> {
    let (name, _) = path.file_name()?.to_str()?.split_once(".so")?;
    SORTS.iter().find(|sort| sort.files.contains(&name))
}

/// `known` is its version, if that is known.
fn of(sort: &Sort, path: &Path, bytes: &[u8], ours: &[&str], known: Option<&str>) -> Installed {
    let named = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let version = match sort.before_version {
        Some(before) => after(bytes, before),
        None if sort.allocator == "jemalloc" => jemalloc_version(bytes),
        None => None,
    };
    // `libmimalloc.so.2.0`; a file without a number has its name for one.
    let by_name = || match named.split_once(".so.") {
        Some((_, number)) => number.to_string(),
        None => named.clone(),
    };
    let version = known.map(str::to_string).or(version).unwrap_or_else(by_name);
    let name = match ours.contains(&sort.allocator) {
        true => format!("{}@{version}", sort.allocator),
        false => sort.allocator.to_string(),
    };
    // The variables of tcmalloc stand in capital letters and with their beginning.
    let word = |setting: &Setting| match &sort.environment {
        Environment::Each { prefix } if prefix == "TCMALLOC_" => format!("{prefix}{}", setting.name.to_uppercase()),
        _ => setting.name.to_string(),
    };
    let knows = |setting: &Setting| find(bytes, format!("{}\0", word(setting)).as_bytes()).is_some();
    Installed {
        name,
        path: path.to_path_buf(),
        settings: sort.settings(&version).filter(|setting| knows(setting)).cloned().collect(),
        version,
        environment: sort.environment.clone(),
        reader: sort.reader,
    }
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word)
}

/// The word after a text, up to its NUL: `2.10` of `gperftools 2.10`.
fn after(bytes: &[u8], before: &str) -> Option<String> {
    let start = find(bytes, before.as_bytes())? + before.len();
    let rest = &bytes[start..];
    let end = rest.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b'.'))?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned()).filter(|version| !version.is_empty())
}

/// jemalloc's version is `5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c`.
fn jemalloc_version(bytes: &[u8]) -> Option<String> {
    let texts = bytes.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
    let version = |text: &str| -> Option<String> {
        let (version, rest) = text.split_once('-')?;
        let (commits, build) = rest.split_once("-g")?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_version = version.split('.').count() == 3 && version.split('.').all(digits);
        let is_build = build.len() >= 7 && build.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_version && digits(commits) && is_build).then(|| version.to_string())
    };
    texts.into_iter().find_map(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(file: &str, text: &str) -> Installed {
        let path = Path::new("/lib").join(file);
        of(sort_of(&path).unwrap(), &path, text.as_bytes(), &["system", "jemalloc", "mimalloc"], None)
    }

    fn names(found: &Installed) -> Vec<&str> {
        found.settings.iter().map(|setting| setting.name.as_ref()).collect()
    }

    #[test]
    fn a_library_that_was_built_has_the_name_of_its_version() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "x\0purge_delay\0").unwrap();
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
            assert!(sort_of(Path::new(file)).is_none(), "{file}");
        }
    }
}
