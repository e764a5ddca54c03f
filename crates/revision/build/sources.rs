//! The source files of the cells and preloads. In: the repository's manifests. Out: their files and folders, and a hash over every
//! file in them.
//!
//! This module belongs to the build script. For its tests, the crate compiles it too.

use std::fs;
use std::path::{Path, PathBuf};

use allocanary_sys::fnv::Fnv;
use toml::{Table, Value};

/// The files of the root package: the roots of the cells and preloads, and how they are linked.
const ROOT: [&str; 5] = ["Cargo.toml", "Cargo.lock", "build.rs", "src/cells", "src/preloads"];

/// The crates that these roots call. Their dependencies follow from the manifests.
const LINKED: [&str; 5] = ["crates/allocanary", "crates/cell", "crates/preload", "crates/revision", "crates/recorder"];

/// The files of a packaged crate, which has no other crates around it.
const PACKAGED: [&str; 5] = ["Cargo.toml", "Cargo.lock", "build.rs", "build", "src"];

/// The files and folders to hash, relative to the repository or, in a packaged crate, to the crate.
pub fn places(root: &Path) -> Result<Vec<PathBuf>, String> {
    if !root.join("crates/revision/build.rs").exists() {
        return Ok(PACKAGED.map(PathBuf::from).into());
    }
    Ok(ROOT.iter().map(PathBuf::from).chain(linked(root)?).collect())
}

/// A hash over the names and the contents of every file in these places.
pub fn hash(root: &Path, places: &[PathBuf]) -> Fnv {
    let mut hash = Fnv::default();
    for file in files(root, places) {
        hash.add(file.to_string_lossy().as_bytes());
        hash.add(&fs::read(root.join(&file)).unwrap_or_default());
    }
    hash
}

/// The folders of the linked crates and of the repository's crates that they depend on, directly or not.
fn linked(root: &Path) -> Result<Vec<PathBuf>, String> {
    let common = manifest(root)?;
    let common = common.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let mut found = LINKED.map(PathBuf::from).to_vec();
    let mut read = 0;
    while read < found.len() {
        let folder = found[read].clone();
        read += 1;
        for (name, wanted) in dependencies(&manifest(&root.join(&folder))?) {
            // `{ workspace = true }` has its path in the root's manifest, relative to the root.
            let is_common = wanted.get("workspace").and_then(Value::as_bool) == Some(true);
            let (wanted, base) = match is_common {
                true => (common.and_then(|common| common.get(&name)).cloned().unwrap_or(wanted), Path::new("")),
                false => (wanted, folder.as_path()),
            };
            let Some(path) = wanted.get("path").and_then(Value::as_str) else { continue };
            let path = plain(&base.join(path));
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn manifest(folder: &Path) -> Result<Table, String> {
    let path = folder.join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse().map_err(|error| format!("{}: {error}", path.display()))
}

/// The dependencies that are linked or used by build scripts, for every target; not those that only tests use.
fn dependencies(manifest: &Table) -> Vec<(String, Value)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    let tables = tables.flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)));
    let lines = tables.flatten().filter_map(Value::as_table).flatten();
    lines.map(|(name, wanted)| (name.clone(), wanted.clone())).collect()
}

/// Removes `..`, so that one crate has one path: `crates/cell/../sys` becomes `crates/sys`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.iter() {
        if part == ".." {
            plain.pop();
        } else if part != "." {
            plain.push(part);
        }
    }
    plain
}

/// Every file in these places, sorted.
fn files(root: &Path, places: &[PathBuf]) -> Vec<PathBuf> {
    let mut left = places.to_vec();
    let mut files = Vec::new();
    while let Some(path) = left.pop() {
        match fs::read_dir(root.join(&path)) {
            Ok(entries) => left.extend(entries.flatten().map(|entry| path.join(entry.file_name()))),
            Err(_) => files.push(path),
        }
    }
    files.sort();
    files
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
