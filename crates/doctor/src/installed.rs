//! The allocators of others that this host has as libraries. In: the loader's cache, and the libraries as files. Out: for each its
//! name, version, path, and the settings that it knows.
//!
//! Nothing is loaded or run. A version is what the library says in its text, or else the end of its file's name. A setting is one of
//! the tables here whose name stands in the library: what it does not know stands nowhere in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use allocanary_allocators::environment::Environment;
use allocanary_allocators::setting::{Kind, Setting};
use allocanary_kernel::elf::check_loadable;

use cache::libraries;

mod cache;

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
}

/// A kind of library.
struct Sort {
    /// The beginnings of its file's name, up to the first dot.
    files: &'static [&'static str],
    allocator: &'static str,
    /// What stands before the version in its text.
    before_version: Option<&'static str>,
    settings: &'static [Setting],
    environment: Environment,
}

const COUNT: Kind = Kind::Number { min: 0, max: i64::MAX };
const SIGNED: Kind = Kind::Number { min: -1, max: i64::MAX };
const BIT: Kind = Kind::Number { min: 0, max: 1 };

/// Each with the settings of the versions that distributions ship; [`Installed::settings`] has those that a library knows.
const SORTS: &[Sort] = &[
    Sort {
        files: &["libjemalloc"],
        allocator: "jemalloc",
        before_version: None,
        // Of 5.2 and 5.3: https://jemalloc.net/jemalloc.3.html, "opt.*".
        settings: &[
            Setting::new("narenas", Kind::Number { min: 1, max: 4094 }, "number of arenas"),
            Setting::new("tcache", Kind::Flag, "thread caches"),
            Setting::new("tcache_max", Kind::Size { min: 0, max: 8 << 20 }, "largest block in thread caches"),
            Setting::new("dirty_decay_ms", SIGNED, "ms before dirty pages go back; 0 at once, -1 never"),
            Setting::new("muzzy_decay_ms", SIGNED, "ms before muzzy pages go back; 0 at once, -1 never"),
            Setting::new("background_thread", Kind::Flag, "threads that give pages back"),
            Setting::new("oversize_threshold", Kind::SIZE, "blocks from this size on have an arena of their own"),
            Setting::new("retain", Kind::Flag, "keep address space"),
            Setting::new("lg_tcache_nslots_mul", Kind::Number { min: -16, max: 16 }, "thread caches are 2^n as long"),
        ],
        environment: JEMALLOC,
    },
    Sort {
        files: &["libtcmalloc"],
        allocator: "tcmalloc",
        before_version: Some("gperftools "),
        settings: TCMALLOC,
        environment: Environment::Each { prefix: std::borrow::Cow::Borrowed("TCMALLOC_") },
    },
    Sort {
        files: &["libtcmalloc_minimal"],
        allocator: "tcmalloc_minimal",
        before_version: Some("gperftools "),
        settings: TCMALLOC,
        environment: Environment::Each { prefix: std::borrow::Cow::Borrowed("TCMALLOC_") },
    },
    Sort {
        files: &["libmimalloc", "libmimalloc-secure"],
        allocator: "mimalloc",
        before_version: None,
        // Of 2.0 to 3.x: the comments of enum mi_option_e in mimalloc.h.
        settings: &[
            Setting::new("decommit_delay", COUNT, "ms before freed pages go back (2.0)"),
            Setting::new("allow_decommit", BIT, "freed pages go back (2.0)"),
            Setting::new("purge_delay", SIGNED, "ms before freed pages go back; 0 at once, -1 never"),
            Setting::new("purge_decommits", BIT, "1 gives pages back, 0 only marks them"),
            Setting::new("eager_commit", BIT, "commit a segment's memory at once"),
            Setting::new("eager_commit_delay", COUNT, "a thread's first segments that are not committed at once"),
            Setting::new("page_reset", BIT, "reset pages that are empty"),
            Setting::new("abandoned_page_decommit", BIT, "give back free pages of threads that ended (2.0)"),
            Setting::new("abandoned_page_purge", BIT, "give back free pages of threads that ended"),
            Setting::new("large_os_pages", BIT, "2 MiB pages (2.0)"),
            Setting::new("allow_large_os_pages", BIT, "2 MiB pages from the system's pool"),
            Setting::new("allow_thp", BIT, "transparent huge pages"),
        ],
        environment: Environment::Each { prefix: std::borrow::Cow::Borrowed("MIMALLOC_") },
    },
    plain("snmalloc", &["libsnmallocshim", "libsnmallocshim-checks"]),
    plain("mesh", &["libmesh"]),
    plain("rpmalloc", &["librpmalloc", "librpmallocwrap"]),
    plain("hoard", &["libhoard"]),
];

/// https://gperftools.github.io/gperftools/tcmalloc.html, "Modifying Runtime Behavior".
const TCMALLOC: &[Setting] = &[
    Setting::new("max_total_thread_cache_bytes", Kind::SIZE, "bound of all thread caches"),
    Setting::new("release_rate", Kind::Number { min: 0, max: 10 }, "how fast freed pages go back; 0 never"),
    Setting::new("aggressive_decommit", Kind::Flag, "freed pages go back at once"),
    Setting::new("heap_limit_mb", COUNT, "most MiB of the heap; 0 no limit"),
    Setting::new("transfer_num_obj", COUNT, "most blocks that move to the central list at once"),
];

/// jemalloc as distributions build it, without a prefix.
const JEMALLOC: Environment = Environment::Joined {
    variable: std::borrow::Cow::Borrowed("MALLOC_CONF"),
    earlier: std::borrow::Cow::Borrowed(&[]),
    single: std::borrow::Cow::Borrowed(&[]),
    prefix: std::borrow::Cow::Borrowed(""),
    assign: std::borrow::Cow::Borrowed(":"),
    separator: std::borrow::Cow::Borrowed(","),
};

/// An allocator without settings.
const fn plain(allocator: &'static str, files: &'static [&'static str]) -> Sort {
    let environment = Environment::Each { prefix: std::borrow::Cow::Borrowed("ALLOCANARY_NO_SETTINGS_") };
    Sort { files, allocator, before_version: None, settings: &[], environment }
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
        all.push(of(sort, &path, &bytes, ours));
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
    let found = of(sort, path, &fs::read(path).ok()?, &[]);
    Some(Installed { name, version: version.into(), ..found })
}

/// What kind of library a file is, by its name: `libjemalloc.so.2`.
fn sort_of(path: &Path) -> Option<&'static Sort> {
    let (name, _) = path.file_name()?.to_str()?.split_once(".so")?;
    SORTS.iter().find(|sort| sort.files.contains(&name))
}

fn of(sort: &Sort, path: &Path, bytes: &[u8], ours: &[&str]) -> Installed {
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
    let version = version.unwrap_or_else(by_name);
    let name = match ours.contains(&sort.allocator) {
        true => format!("{}@{version}", sort.allocator),
        false => sort.allocator.to_string(),
    };
    // The variables of tcmalloc stand in capital letters and with their beginning.
    let word = |setting: &Setting| match &sort.environment {
        Environment::Each { prefix } if prefix == "TCMALLOC_" => format!("{prefix}{}", setting.name.to_uppercase()),
        _ => setting.name.to_string(),
    };
    let knows = |setting: &&Setting| find(bytes, format!("{}\0", word(setting)).as_bytes()).is_some();
    Installed {
        name,
        version,
        path: path.to_path_buf(),
        settings: sort.settings.iter().filter(knows).cloned().collect(),
        environment: sort.environment.clone(),
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
        of(sort_of(&path).unwrap(), &path, text.as_bytes(), &["system", "jemalloc", "mimalloc"])
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
        let found = made("libmimalloc.so.2.0", "decommit_delay\0");
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
