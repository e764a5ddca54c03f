//! The types for the marks of allocators in a file of a program.

use std::collections::BTreeSet;

/// The marks of allocators in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// Symbols of allocators that it defines, in either symbol table.
    pub symbols: BTreeSet<&'static str>,
    /// The symbols among these to which other files can bind.
    pub exports: BTreeSet<&'static str>,
    /// The names of the known texts that it contains: see `strings` in `elf.rs`.
    pub strings: BTreeSet<&'static str>,
    /// Whether it calls `install!`'s hook, by a symbol.
    pub hook: bool,
    /// Whether it has a full symbol table in addition to the one for dynamic linking.
    pub has_symbols: bool,
    /// glibc's version, if the file is glibc or is linked statically with it.
    pub glibc: Option<String>,
    /// jemalloc's version, if the file is jemalloc or is linked statically with it.
    pub jemalloc: Option<String>,
    /// Words that may be option names, if the file is mimalloc or is linked statically with it. They include its
    /// options.
    pub words: BTreeSet<String>,
    /// Whether Go built it.
    pub go: bool,
    /// Whether it is linked dynamically: it imports something.
    pub is_dynamic: bool,
    /// Whether it calls another file's malloc family, or C++'s `new`, which calls it.
    pub imports_malloc: bool,
}

/// The name of `malloc` itself.
pub const MALLOC: &str = "malloc";
/// The name that only glibc gives to its malloc.
pub const GLIBC_MALLOC: &str = "__libc_malloc";

/// A file of a process.
#[derive(Clone, Debug)]
pub struct ProgramFile {
    /// Its path, for messages.
    pub path: String,
    /// Its marks.
    pub marks: Signs,
    /// Whether it could not be read, for example because a package upgrade has deleted a mapped library. Then only its
    /// name is known.
    pub unread: bool,
}
