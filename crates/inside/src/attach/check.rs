//! Refuses processes into which no recorder can be put, with the first reason found. Whether a thread can be borrowed is checked later.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::give_back::Refusal;
use allocanary_heap::{Mapping, parse_maps};
use allocanary_sys::proc::files::{ProcEntry, own_path, path};
use allocanary_sys::proc::maps;

const FROM_START: &str = "Record it from its start: `allocanary record -- PROGRAM`";

/// Libraries that also change or replace the calls of the allocator. Each is named by the begin of its file's name.
const OTHERS: [(&str, &str); 7] = [
    ("libasan", "AddressSanitizer"),
    ("libtsan", "ThreadSanitizer"),
    ("libhwasan", "a sanitizer"),
    ("liblsan", "LeakSanitizer"),
    ("libheaptrack", "heaptrack"),
    ("libmemusage", "memusage"),
    ("vgpreload", "Valgrind"),
];

/// Fails if the recorder cannot be put into this process.
pub fn check(pid: u32, library: &Path) -> Result<(), Refusal> {
    let mappings = mappings(pid)?;
    let refused = |(state, instead)| Err(Refusal::State { pid, state, instead });
    if let Some(problem) = problem(&mappings, library) {
        return refused(problem);
    }
    let is_same = |file: ProcEntry| {
        let of = |path: String| fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
        matches!((of(path(pid, file)), of(own_path(file))), (Ok(one), Ok(other)) if one == other)
    };
    if !is_same(ProcEntry::MountSpace) || !is_same(ProcEntry::Root) {
        let state = "it sees other files than this command (a container?), and could not open the recorder".into();
        return refused((state, "Run this command in the same container"));
    }
    Ok(())
}

/// Whether a process has mapped the recorder's library.
pub fn has(pid: u32, library: &Path) -> Result<bool, Refusal> {
    Ok(mappings(pid)?.iter().any(|one| is_library(one, library)))
}

/// The files with code that a process has mapped: inode number and path.
pub fn modules(pid: u32) -> Result<BTreeSet<(u64, String)>, Refusal> {
    let files = mappings(pid)?.into_iter().filter(|one| one.executable && one.inode != 0);
    Ok(files.map(|one| (one.inode, one.name)).collect())
}

fn mappings(pid: u32) -> Result<Vec<Mapping>, Refusal> {
    let text = maps::read(pid).map_err(|error| Refusal::of(pid, "reading its mappings", error))?;
    Ok(parse_maps(text))
}

fn is_library(mapping: &Mapping, library: &Path) -> bool {
    let inode = fs::metadata(library).map_or(0, |meta| meta.ino());
    mapping.inode != 0 && mapping.inode == inode && Path::new(&mapping.name) == library
}

fn problem(mappings: &[Mapping], library: &Path) -> Option<(String, &'static str)> {
    let name = |mapping: &Mapping| {
        let path = mapping.name.trim_end_matches(" (deleted)");
        path.rsplit('/').next().unwrap_or_default().to_string()
    };
    let files: BTreeSet<String> = mappings.iter().filter(|one| one.inode != 0).map(name).collect();
    let of_ours = |one: &&Mapping| one.inode != 0 && name(one).starts_with("preload-") && !is_library(one, library);
    if let Some(preload) = mappings.iter().find(of_ours) {
        let state = format!("a library of allocanary is in it already: {}", preload.name);
        return Some((state, "It keeps that until it is started again"));
    }
    if let Some((_, tool)) = OTHERS.iter().find(|(begin, _)| files.iter().any(|file| file.starts_with(begin))) {
        return Some((
            format!("it runs under {tool}, which has its own ways through the allocator's calls"),
            "End that first",
        ));
    }
    if let Some(loader) = files.iter().find(|file| file.starts_with("ld-musl")) {
        let state = format!("its C library is musl ({loader}), whose allocator is linked without a table");
        return Some((state, FROM_START));
    }
    let has_loader = files.iter().any(|file| ["ld-linux", "ld-2", "ld64"].iter().any(|begin| file.starts_with(begin)));
    (!has_loader).then(|| {
        let state = "it is linked statically: it has no loader that could open the recorder".into();
        (state, "A Rust program can record itself: `install!(..., wrap = Recording)`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_mapped_is_the_reason() {
        let of = |names: &[&str]| {
            let file =
                |name: &&str| Mapping { inode: 7, name: name.to_string(), executable: true, ..Mapping::default() };
            problem(&names.iter().map(file).collect::<Vec<_>>(), Path::new("/nowhere/preload-record"))
                .map(|(state, _)| state)
        };
        let loader = "/lib64/ld-linux-x86-64.so.2";
        assert_eq!(of(&["/bin/server", loader]), None);
        assert!(of(&["/bin/server"]).unwrap().contains("linked statically"));
        assert!(of(&["/bin/server", "/lib/ld-musl-x86_64.so.1"]).unwrap().contains("musl"));
        assert!(of(&[loader, "/x/preload-jemalloc"]).unwrap().contains("in it already: /x/preload-jemalloc"));
        assert!(of(&[loader, "/x/preload-record (deleted)"]).unwrap().contains("in it already"));
        assert!(of(&[loader, "/lib/libasan.so.8.0.0"]).unwrap().contains("AddressSanitizer"));
    }

    #[test]
    fn this_process_sees_the_same_files() {
        check(std::process::id(), Path::new("/nowhere/preload-record")).unwrap();
        let modules = modules(std::process::id()).unwrap();
        assert!(modules.iter().any(|(_, name)| name.contains("libc.so")), "{modules:?}");
        assert!(!has(std::process::id(), Path::new("/nowhere/preload-record")).unwrap());
    }
}
