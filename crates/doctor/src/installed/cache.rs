//! Lists the libraries that the loader finds: those in its cache (`/etc/ld.so.cache`), and those in folders that are not in the cache.
//!
//! The cache of glibc 2.32 and later has a header of 48 bytes, with the number of entries at 20, and then entries of 24 bytes each. An
//! entry has the offsets of the library's name and path in the file at 4 and 8, and at 16 the processors that it is for (0 means all).
//! Earlier releases may have an old cache in front of it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use allocanary_sys::input;

const CACHE: &str = "/etc/ld.so.cache";
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEAD: usize = 48;
const ENTRY: usize = 24;

/// All libraries. Those in the folders of `LD_LIBRARY_PATH` come first, as for the loader.
pub fn libraries() -> Vec<PathBuf> {
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let named = std::env::split_paths(&named).filter(|folder| folder.is_absolute());
    // A library that was copied there after the last `ldconfig` is not in the cache.
    let folders = named.chain([PathBuf::from("/usr/local/lib")]);
    let files = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    files.into_iter().chain(cached(&input::bytes(Path::new(CACHE)).unwrap_or_default())).collect()
}

/// A library of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachedLibrary {
    /// The name by which programs ask for it.
    pub name: OsString,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is only for some processors. The cache has such a library in addition to the usual one.
    pub is_special: bool,
}

/// The libraries of this host's cache, in its order.
pub fn entries() -> Vec<CachedLibrary> {
    parsed(&input::bytes(Path::new(CACHE)).unwrap_or_default())
}

/// The paths of a cache.
fn cached(bytes: &[u8]) -> Vec<PathBuf> {
    parsed(bytes).into_iter().map(|entry| entry.path).collect()
}

fn parsed(bytes: &[u8]) -> Vec<CachedLibrary> {
    let Some(start) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) else { return Vec::new() };
    let new = &bytes[start..];
    let number = |at: usize| Some(u32::from_ne_bytes(new.get(at..at + 4)?.try_into().ok()?) as usize);
    let Some(count) = number(MAGIC.len()) else { return Vec::new() };
    let text = |at: usize| Some(OsStr::from_bytes(new.get(at..)?.split(|byte| *byte == 0).next()?));
    let entries = (0..count.min(new.len() / ENTRY)).filter_map(|entry| {
        let at = HEAD + entry * ENTRY;
        let path = Path::new(text(number(at + 8)?)?);
        let is_special = (number(at + 16)?, number(at + 20)?) != (0, 0);
        let name = text(number(at + 4)?)?.to_os_string();
        path.is_absolute().then(|| CachedLibrary { name, path: path.into(), is_special })
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every library's name is the last part of its path.
    fn cache(paths: &[&str]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend((paths.len() as u32).to_ne_bytes());
        out.resize(HEAD, 0);
        let mut texts = Vec::new();
        for path in paths {
            let at = HEAD + paths.len() * ENTRY + texts.len();
            let name = at + path.rfind('/').map_or(0, |slash| slash + 1);
            let words = [3_u32, name as u32, at as u32, 0, 0, u32::from(path.contains("hwcaps"))];
            words.iter().for_each(|word| out.extend(word.to_ne_bytes()));
            texts.extend(path.bytes().chain([0]));
        }
        out.extend(texts);
        out
    }

    #[test]
    fn a_cache_has_paths_and_what_is_torn_has_fewer() {
        let whole = cache(&["/lib/libjemalloc.so.2", "/lib/b.so", "relative"]);
        assert_eq!(cached(&whole), [PathBuf::from("/lib/libjemalloc.so.2"), PathBuf::from("/lib/b.so")]);
        let mut old = b"ld.so-1.7.0 and an old cache".to_vec();
        old.extend(&whole);
        assert_eq!(cached(&old).len(), 2, "an old cache before it");
        for length in 0..whole.len() {
            assert!(cached(&whole[..length]).len() <= 2);
        }
        assert_eq!(cached(b"something else"), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_library_for_some_processors_is_marked() {
        let found = parsed(&cache(&["/lib/glibc-hwcaps/x86-64-v3/libm.so.6", "/lib/libm.so.6"]));
        let entry = |path: &str, is_special| CachedLibrary { name: "libm.so.6".into(), path: path.into(), is_special };
        assert_eq!(found, [entry("/lib/glibc-hwcaps/x86-64-v3/libm.so.6", true), entry("/lib/libm.so.6", false)]);
    }
}
