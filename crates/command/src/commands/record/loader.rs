//! Predicts what the loader does with `LD_PRELOAD`. In: the variable's text. Out: an error for a library that the
//! loader would not find.

use std::path::Path;

use allocanary_rows::error::{Error, Result};

/// The folders that the loaders of glibc and musl always search.
const FOLDERS: [&str; 5] = ["/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"];

/// Fails if the loader would not find one of these libraries. The loader leaves out such a library: the program then
/// runs with another allocator than the user wanted, and this one is recorded.
pub fn check_preloads(text: &str) -> Result<()> {
    let names = text.split([':', ' ']).filter(|name| !name.is_empty());
    // The loader replaces $LIB, $ORIGIN and $PLATFORM, so these paths are not checked.
    let Some(missing) = names.filter(|name| !name.contains('$')).find(|name| !is_found(name)) else { return Ok(()) };
    let next = match missing.strip_prefix("preload-") {
        Some(allocator) => format!("`allocanary preload {allocator}` prints it"),
        None => "such as /usr/lib/libother.so".into(),
    };
    Err(Error::Input(format!(
        "LD_PRELOAD: {missing}: the loader finds no such library, and would run the program without it: wanted its whole \
         path: {next}"
    )))
}

/// Whether the loader finds a library: a path, or a bare name in the folders that it searches or in its cache.
fn is_found(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).exists();
    }
    let asked = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = asked.split([':', ';']).filter(|folder| !folder.is_empty()).chain(FOLDERS);
    // In the cache, paths are texts that end in NUL. A name is the end of its path.
    let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
    let is_known = |path: &[u8]| path.strip_suffix(name.as_bytes()).is_some_and(|folder| folder.ends_with(b"/"));
    folders.into_iter().any(|folder| Path::new(folder).join(name).exists())
        || cache.split(|byte| *byte == 0).any(is_known)
}
