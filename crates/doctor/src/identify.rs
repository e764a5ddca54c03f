//! Finds the allocators of a process, by the marks of its program and of its mapped libraries. Also says where and how each was found, and
//! how certain this is.
//!
//! A Rust program may have two allocators: its own global allocator and C's malloc. A mapped library is not necessarily used. The
//! process uses the `malloc` that the loader finds first: the program's own comes before that of any library.

use super::flavour::Flavour;
use super::identity::{Certainty, PROFILER, ProcessAllocator, ProcessAllocators, RECORDER, file_name, preload_of};
use super::signs::{GLIBC_MALLOC, MALLOC, ProgramFile, Signs};
use crate::allocators::jemalloc::INSTALL;
use crate::allocators::{ALL, part};
use crate::contract::Part;
use allocanary_facts::system;

/// Finds the allocators. `libraries` are in the order in which they were mapped.
pub fn identify(program: &ProgramFile, libraries: &[ProgramFile]) -> ProcessAllocators {
    let mut notes = Vec::new();
    let own = linked(program, &mut notes);
    let c = bound(program, libraries);
    if program.marks.go {
        let how = format!("{} has the section .go.buildinfo", program.path);
        let main = ProcessAllocator { flavour: Flavour::Go, file: program.path.clone(), how, sure: Certainty::Yes };
        // Without cgo there is no C code.
        let has_c = libraries.iter().any(|library| libc_of(library).is_some()) || c.flavour != Flavour::OtherLibc;
        return ProcessAllocators { main, c: own.or(has_c.then_some(c)), notes };
    }
    for library in libraries {
        let Some((flavour, symbol)) = by_symbol(&library.marks) else { continue };
        if c.flavour != flavour && own.as_ref().is_none_or(|own| own.flavour != flavour) {
            let (path, name) = (&library.path, flavour.name());
            notes.push(format!("{path} defines {symbol} ({name}) and is mapped, but malloc is not bound to it"));
        }
    }
    match own {
        // The program's allocator has C's own names, so the C code uses it too.
        Some(own) if own.flavour == c.flavour || program.marks.symbols.contains(MALLOC) && replaces(&own) => {
            ProcessAllocators { main: own, c: None, notes }
        }
        Some(own) => ProcessAllocators { main: own, c: Some(c), notes },
        None if c.sure == Certainty::Yes && !program.marks.imports_malloc => {
            let how = format!(
                "{}; the program itself calls the malloc of no other file, so it may have an allocator of its own",
                c.how
            );
            ProcessAllocators { main: ProcessAllocator { how, sure: Certainty::Likely, ..c }, c: None, notes }
        }
        None => ProcessAllocators { main: c, c: None, notes },
    }
}

/// Whether the allocator that was found in a file is also the file's `malloc`.
fn replaces(own: &ProcessAllocator) -> bool {
    !matches!(own.flavour, Flavour::RustJemalloc { .. } | Flavour::Unknown) && !leaves_malloc(own.flavour)
}

/// Whether `malloc` remains the C library's in a program that has the allocator linked in.
pub(crate) fn leaves_malloc(flavour: Flavour) -> bool {
    flavour.allocator().and_then(|one| part(one.name)).is_some_and(|part| part.marks.leaves_malloc)
}

/// An allocator that is linked into the program itself.
fn linked(program: &ProgramFile, notes: &mut Vec<String>) -> Option<ProcessAllocator> {
    let ProgramFile { path, marks, .. } = program;
    if let Some((flavour, symbol)) = by_symbol(marks) {
        let others = ALL.iter().filter_map(|part| part.marks.symbols.first()).map(|(symbol, _)| *symbol);
        let others: Vec<&str> = others.filter(|other| marks.symbols.contains(other)).collect();
        if others.len() > 1 {
            notes
                .push(format!("several allocators are linked in ({}): which one serves is a guess", others.join(", ")));
        }
        let sure = if others.len() > 1 { Certainty::Likely } else { Certainty::Yes };
        return Some(ProcessAllocator {
            flavour,
            file: path.clone(),
            how: format!("{path} defines the symbol {symbol}"),
            sure,
        });
    }
    // If the file has symbols, but no symbol of an allocator, a string proves nothing.
    if marks.has_symbols {
        // In a static program, glibc's malloc has further names as well.
        let is_hidden = marks.symbols.contains(MALLOC) && !marks.exports.contains(MALLOC) && marks.is_dynamic;
        let how = format!("{path} defines a malloc that other files cannot see, and no symbol tells whose");
        return is_hidden.then(|| ProcessAllocator {
            flavour: Flavour::Unknown,
            file: path.clone(),
            how,
            sure: Certainty::Likely,
        });
    }
    let (flavour, text) = ALL.iter().find_map(|part| (part.marks.by_texts)(&marks.strings))?;
    let how = format!("{path} is stripped and contains {text}");
    Some(ProcessAllocator { flavour, file: path.clone(), how, sure: Certainty::Likely })
}

/// The `malloc` that C code calls: the program's if it has one, otherwise that of the first library with one. The C
/// library comes last.
fn bound(program: &ProgramFile, libraries: &[ProgramFile]) -> ProcessAllocator {
    let ProgramFile { path, marks, .. } = program;
    if marks.exports.contains(MALLOC) {
        let is_static = libraries.iter().all(|library| libc_of(library).is_none());
        let (flavour, how, sure) = match by_symbol(marks) {
            Some((flavour, symbol)) => (flavour, format!("{path} exports malloc and defines {symbol}"), Certainty::Yes),
            None if is_static && marks.strings.contains(system::HEAP) => {
                (Flavour::Glibc, format!("{path} exports malloc and is linked statically"), Certainty::Likely)
            }
            None => {
                let how = format!("{path} exports a malloc of its own, and no symbol tells whose");
                (Flavour::Unknown, how, Certainty::Likely)
            }
        };
        return ProcessAllocator { flavour, file: path.clone(), how, sure };
    }
    let is_libc = |library: &&ProgramFile| libc_of(library).is_some();
    // The loader has a separate malloc for internal use (before glibc 2.34 its file is named by the release: ld-2.31.so). The recorder
    // and the profiler pass every call on.
    let is_aside = |library: &ProgramFile| {
        let name = file_name(&library.path);
        name.starts_with("ld-linux") || name.starts_with("ld-2.") || name == RECORDER || name == PROFILER
    };
    let others = || libraries.iter().filter(|library| !is_libc(library) && !is_aside(library));
    let has_malloc = |library: &&ProgramFile| library.marks.exports.contains(MALLOC) || by_name(library).is_some();
    if let Some(library) = others().find(has_malloc) {
        let path = &library.path;
        if let Some(flavour) = by_name(library) {
            let how = format!("malloc is bound to {path}, which could not be read and is known by its name");
            return ProcessAllocator { flavour, file: path.clone(), how, sure: Certainty::Likely };
        }
        let (found, symbol) = by_symbol(&library.marks).unwrap_or((Flavour::Unknown, MALLOC));
        let flavour = preloaded(path).unwrap_or(found);
        let how = format!("malloc is bound to {path}, which defines {symbol}");
        return ProcessAllocator { flavour, file: path.clone(), how, sure: Certainty::Likely };
    }
    match libraries.iter().find(is_libc) {
        Some(library) => {
            let flavour = libc_of(library).unwrap_or(Flavour::OtherLibc);
            let file = library.path.clone();
            let how = format!("malloc is bound to {file}");
            match others().find(|other| other.unread && file_name(&other.path).contains(".so")) {
                Some(unread) => {
                    let how = format!("{how}, unless {} has one, which could not be read: try as root", unread.path);
                    ProcessAllocator { flavour, file, how, sure: Certainty::Likely }
                }
                None => ProcessAllocator { flavour, file, how, sure: Certainty::Yes },
            }
        }
        None => {
            let glibc = marks.glibc.is_some() || marks.strings.contains(system::HEAP);
            // glibc's own functions also have these names. So a malloc without them is not glibc's.
            let own = marks.symbols.contains(MALLOC) && !marks.symbols.contains(GLIBC_MALLOC);
            let (flavour, how) = match (own && glibc, glibc) {
                (true, _) => (Flavour::Unknown, "is linked statically, with a malloc that is not the C library's"),
                (false, true) => (Flavour::Glibc, "is linked statically"),
                (false, false) => (Flavour::OtherLibc, "is linked statically"),
            };
            ProcessAllocator { flavour, file: path.clone(), how: format!("{path} {how}"), sure: Certainty::Likely }
        }
    }
}

/// The allocator of a library that could not be read, by its name.
fn by_name(library: &ProgramFile) -> Option<Flavour> {
    if !library.unread {
        return None;
    }
    let name = file_name(&library.path);
    let mut known = ALL.iter().filter_map(|part| part.marks.library);
    preloaded(&library.path).or_else(|| known.find(|(word, _)| name.contains(word)).map(|(_, flavour)| flavour))
}

/// The flavour of one of our preloads, by the name of its file.
fn preloaded(path: &str) -> Option<Flavour> {
    part(preload_of(path)?)?.marks.preload
}

/// Which C library a file is, if any.
fn libc_of(library: &ProgramFile) -> Option<Flavour> {
    let name = file_name(&library.path);
    let is_it = |part: &&&Part| part.marks.c_library.iter().any(|start| name.starts_with(start));
    ALL.iter().find(is_it).map(|part| part.usual)
}

/// The C library of a process, with its version if it is glibc.
pub fn libc(program: &ProgramFile, libraries: &[ProgramFile]) -> String {
    let library = libraries.iter().find(|library| libc_of(library).is_some());
    match (library.unwrap_or(program), library) {
        (ProgramFile { marks: Signs { glibc: Some(version), .. }, .. }, Some(_)) => {
            format!("{} {version}", system::HEAP)
        }
        (ProgramFile { marks: Signs { glibc: Some(version), .. }, .. }, None) => {
            format!("{} {version}, linked statically", system::HEAP)
        }
        (_, Some(library)) => library.path.rsplit('/').next().unwrap_or_default().to_string(),
        // A static program contains glibc's tunables, but rarely its version.
        (ProgramFile { marks, .. }, None) if marks.strings.contains(system::HEAP) => {
            format!("{}, linked statically", system::HEAP)
        }
        (_, None) => "unknown: the program is linked statically".to_string(),
    }
}

/// The allocator to which one of a file's symbols belongs, and that symbol.
fn by_symbol(marks: &Signs) -> Option<(Flavour, &'static str)> {
    let installs = marks.hook || marks.strings.contains(INSTALL);
    let known = ALL.iter().flat_map(|part| part.marks.symbols);
    let (symbol, flavour) = { known }.find(|(symbol, _)| marks.symbols.contains(symbol))?;
    Some((flavour(installs), symbol))
}

#[cfg(test)]
mod tests;
