//! Finds the libraries that the loader would map for a program, in the loader's order, from what the program and the libraries need.
//! Nothing is run: the rules are those of ld.so(8) and of musl's loader.
//!
//! Two things cannot be known without running the loader. The distribution has chosen the value of `$LIB`: all usual values are tried, and
//! a library of another machine is not taken. For some libraries a host has further builds for newer processors (`glibc-hwcaps`). The usual
//! build is taken in their place.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::needs::Needs;
use crate::installed::cache::CachedLibrary;

/// The greatest number of libraries. It is also the greatest number of files that are read.
const LIBRARIES: usize = 1000;
/// The greatest number of paths that are tried.
const TRIES: usize = 100_000;

/// The device and the inode number of a file.
pub type Id = (u64, u64);

/// The files in which the search looks.
pub trait LibraryFiles {
    /// Which file a path leads to. `None` if there is no regular file.
    fn id(&self, path: &Path) -> Option<Id>;
    /// What a file needs. `None` if it is not an ELF file of this machine's kind.
    fn needs(&self, path: &Path) -> Option<Needs>;
}

/// Where this host has libraries.
#[derive(Clone, Debug, Default)]
pub struct HostLibraries {
    /// `LD_LIBRARY_PATH`.
    pub named: OsString,
    /// The libraries in glibc's cache.
    pub cache: Vec<CachedLibrary>,
    /// The text of `/etc/ld-musl-ARCH.path`.
    pub musl: Option<OsString>,
}

/// The program, or one of its libraries.
struct Part {
    path: PathBuf,
    needs: Rc<Needs>,
    /// The index of the part that needs it first.
    parent: Option<usize>,
}

/// A library that was found.
struct Found {
    path: PathBuf,
    id: Id,
    needs: Rc<Needs>,
}

/// The libraries of a program, in the order in which the loader would map them. A library that is not found is left out. `program` is a path
/// without links, as the loader sees it.
pub fn libraries(program: &Path, needs: Needs, host: &HostLibraries, files: &dyn LibraryFiles) -> Vec<PathBuf> {
    let Some(interpreter) = needs.interpreter.clone() else { return Vec::new() };
    let is_musl = interpreter.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-musl"));
    let part = Part { path: program.into(), needs: Rc::new(needs), parent: None };
    let mut search = Search { host, files, is_musl, interpreter, parts: vec![part], read: HashMap::new(), tries: 0 };
    search.run();
    search.parts.into_iter().skip(1).map(|part| part.path).collect()
}

/// A search, and what it has found so far.
struct Search<'a> {
    host: &'a HostLibraries,
    files: &'a dyn LibraryFiles,
    is_musl: bool,
    interpreter: PathBuf,
    parts: Vec<Part>,
    /// The files that were read. `None` if the loader would not take the file.
    read: HashMap<Id, Option<Rc<Needs>>>,
    tries: usize,
}

impl Search<'_> {
    /// Finds the libraries of the program, then those of its libraries, and so on.
    fn run(&mut self) {
        let loader = self.look(self.interpreter.clone());
        let its_name = loader.and_then(|loader| loader.needs.name.clone());
        let mut mapped: HashSet<Id> = self.files.id(&self.parts[0].path).into_iter().collect();
        let mut names: HashSet<OsString> = HashSet::new();
        let mut at = 0;
        while let Some(part) = self.parts.get(at) {
            for name in &part.needs.clone().libraries {
                if self.parts.len() > LIBRARIES || self.tries > TRIES {
                    return;
                }
                if !names.insert(name.clone()) {
                    continue;
                }
                let is_loader = its_name.as_ref() == Some(name) || self.is_loader(name);
                let found = if is_loader { self.look(self.interpreter.clone()) } else { self.find(at, name) };
                let Some(Found { path, id, needs }) = found else { continue };
                if mapped.insert(id) {
                    // glibc also finds a mapped library by the name that it has in itself.
                    names.extend(needs.name.clone().filter(|_| !self.is_musl));
                    self.parts.push(Part { path, needs, parent: Some(at) });
                }
            }
            at += 1;
        }
    }

    /// Whether the loader itself serves a name. musl's loader is also its C library.
    fn is_loader(&self, name: &OsStr) -> bool {
        let is_libc = || {
            let name = name.as_bytes().strip_prefix(b"lib").unwrap_or_default();
            MUSL_ITSELF.iter().any(|part| name.starts_with(part.as_bytes()))
        };
        self.interpreter.file_name() == Some(name) || self.is_musl && is_libc()
    }

    /// Finds a library that a part has asked for.
    fn find(&mut self, at: usize, name: &OsStr) -> Option<Found> {
        if name.as_bytes().contains(&b'/') {
            let paths = if self.is_musl { vec![name.into()] } else { expanded(name.as_bytes(), &self.parts[at].path) };
            return paths.into_iter().find_map(|path| self.look(path));
        }
        if self.is_musl { self.find_for_musl(at, name) } else { self.find_for_glibc(at, name) }
    }

    fn find_for_glibc(&mut self, at: usize, name: &OsStr) -> Option<Found> {
        let host = self.host;
        let needs = self.parts[at].needs.clone();
        if needs.runpath.is_none() {
            let mut of = Some(at);
            while let Some(part) = of {
                let needs = self.parts[part].needs.clone();
                if let (Some(list), None) = (&needs.rpath, &needs.runpath)
                    && let Some(found) = self.in_list(list, ":", part, name)
                {
                    return Some(found);
                }
                of = self.parts[part].parent;
            }
        }
        if let Some(found) = self.in_list(&host.named, ":;", 0, name) {
            return Some(found);
        }
        if let Some(found) = needs.runpath.as_ref().and_then(|list| self.in_list(list, ":", at, name)) {
            return Some(found);
        }
        let usual: Vec<PathBuf> = GLIBC.iter().map(|folder| folder.replace("ARCH", ARCH).into()).collect();
        let is_usual = |path: &Path| path.parent().is_some_and(|folder| usual.iter().any(|one| one == folder));
        let in_cache = |entry: &&CachedLibrary| entry.name == name && !entry.is_special;
        for entry in host.cache.iter().filter(in_cache).filter(|entry| !(needs.not_usual && is_usual(&entry.path))) {
            if let Some(found) = self.look(entry.path.clone()) {
                return Some(found);
            }
        }
        if needs.not_usual {
            return None;
        }
        usual.iter().find_map(|folder| self.look(folder.join(name)))
    }

    /// musl uses the list of folders of a file, whichever of the two kinds, also for the libraries that its libraries need.
    fn find_for_musl(&mut self, at: usize, name: &OsStr) -> Option<Found> {
        let host = self.host;
        if let Some(found) = self.in_list(&host.named, MUSL_BETWEEN, 0, name) {
            return Some(found);
        }
        let mut of = Some(at);
        while let Some(part) = of {
            let needs = self.parts[part].needs.clone();
            if let Some(list) = needs.runpath.as_ref().or(needs.rpath.as_ref())
                && let Some(found) = self.in_list(list, MUSL_BETWEEN, part, name)
            {
                return Some(found);
            }
            of = self.parts[part].parent;
        }
        let usual = host.musl.as_deref().unwrap_or(OsStr::new(MUSL));
        self.in_list(usual, MUSL_BETWEEN, 0, name)
    }

    /// Finds a library in a list of folders, which belongs to a part.
    fn in_list(&mut self, list: &OsStr, between: &str, of: usize, name: &OsStr) -> Option<Found> {
        let list = list.as_bytes();
        if list.is_empty() || self.is_musl && has_other_than_origin(list) {
            return None;
        }
        for text in list.split(|byte| between.as_bytes().contains(byte)) {
            // For glibc an empty text is the working folder.
            if text.is_empty() && self.is_musl {
                continue;
            }
            for folder in expanded(text, &self.parts[of].path) {
                if let Some(found) = self.look(folder.join(name)) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Looks at a file. `None` if the loader would not take it.
    fn look(&mut self, path: PathBuf) -> Option<Found> {
        self.tries += 1;
        if self.tries > TRIES {
            return None;
        }
        let id = self.files.id(&path)?;
        if !self.read.contains_key(&id) && self.read.len() < LIBRARIES {
            let machine = self.parts[0].needs.machine;
            let needs = self.files.needs(&path).filter(|needs| needs.is_movable && needs.machine == machine);
            self.read.insert(id, needs.map(Rc::new));
        }
        let needs = self.read.get(&id)?.clone()?;
        Some(Found { path, id, needs })
    }
}

const ARCH: &str = std::env::consts::ARCH;

/// The folders that glibc searches last, for all distributions.
const GLIBC: [&str; 6] = ["/lib/ARCH-linux-gnu", "/usr/lib/ARCH-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
/// The values of `$LIB`, for all distributions.
const LIB: [&str; 3] = ["lib/ARCH-linux-gnu", "lib64", "lib"];

/// The folders that musl searches if there is no file with others.
const MUSL: &str = "/lib:/usr/local/lib:/usr/lib";
const MUSL_BETWEEN: &str = ":\n";
/// The begins of names that musl's loader serves itself, after `lib`.
const MUSL_ITSELF: [&str; 7] = ["c.", "pthread.", "rt.", "m.", "dl.", "util.", "xnet."];

/// The values of a text that may contain `$ORIGIN`, `$LIB` and `$PLATFORM`, also in braces. `of` is the file that contains it.
fn expanded(text: &[u8], of: &Path) -> Vec<PathBuf> {
    let origin = of.parent().unwrap_or(Path::new("")).as_os_str().as_bytes();
    let mut all: Vec<PathBuf> = Vec::new();
    for lib in LIB {
        let lib = lib.replace("ARCH", ARCH);
        let mut out = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
            out.extend(&rest[..at]);
            let (name, after) = variable(&rest[at..]);
            match name {
                b"ORIGIN" => out.extend(origin),
                b"LIB" => out.extend(lib.as_bytes()),
                b"PLATFORM" => out.extend(ARCH.as_bytes()),
                _ => out.extend(&rest[at..rest.len() - after.len()]),
            }
            rest = after;
        }
        out.extend(rest);
        let path = PathBuf::from(OsString::from_vec(out));
        if !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

/// The name after a `$`, and the text behind the name. If there is no name, the name is empty, and the text is all that follows the `$`.
fn variable(text: &[u8]) -> (&[u8], &[u8]) {
    let is_of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let begin = if text.get(1) == Some(&b'{') { 2 } else { 1 };
    let end = begin + text[begin..].iter().take_while(is_of_name).count();
    match (begin, text.get(end)) {
        (1, _) => (&text[1..end], &text[end..]),
        (_, Some(b'}')) => (&text[2..end], &text[end + 1..]),
        _ => (b"", &text[1..]),
    }
}

/// Whether a list has a variable that musl does not know. musl then ignores the list.
fn has_other_than_origin(list: &[u8]) -> bool {
    let dollars = list.iter().enumerate().filter(|(_, byte)| **byte == b'$');
    { dollars }.any(|(at, _)| variable(&list[at..]).0 != b"ORIGIN")
}

#[cfg(test)]
mod tests;
