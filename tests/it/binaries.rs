//! A measured program has exactly one allocator linked. The test reads the binaries.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol, SectionFlags};
use tempfile::tempdir;

use super::bounded::Bounded;
use super::preloads::preload;
use super::support::{ours, program};
use allocanary_testing::skipped::skipped;

/// The beginnings of each allocator's symbols.
const SYMBOLS: &[(&str, &[&str])] = &[("jemalloc", &["_rjem_", "je_"]), ("mimalloc", &["mi_", "_mi_"])];

/// Texts of each allocator's code, which no stripping removes.
const TELLTALES: &[(&str, &[&str])] = &[
    ("jemalloc", &["<jemalloc>", "arenas.narenas", "___ Begin jemalloc statistics ___"]),
    ("mimalloc", &["mimalloc: ", "option '%s': %ld %s", "page_reclaim_on_free"]),
];

/// The symbols of a binary that begin in one of these ways.
fn symbols(binary: &[u8], beginnings: &[&str]) -> BTreeSet<String> {
    let file = object::File::parse(binary).unwrap();
    let names = file.symbols().filter_map(|symbol| Some(symbol.name().ok()?.to_string()));
    names.filter(|name| beginnings.iter().any(|beginning| name.starts_with(beginning))).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    // Compares the first byte first: a whole comparison at every offset of ten megabytes takes seconds.
    let first = text.as_bytes()[0];
    (0..bytes.len()).any(|at| bytes[at] == first && bytes[at..].starts_with(text.as_bytes()))
}

#[test]
fn a_cell_holds_the_symbols_of_its_own_allocator_only() {
    for cell in ours() {
        let binary = fs::read(program(cell)).unwrap();
        assert!(object::File::parse(&*binary).unwrap().symbols().count() > 100, "cell-{cell} has symbols to look at");
        for (allocator, beginnings) in SYMBOLS {
            let found = symbols(&binary, beginnings);
            if cell == *allocator {
                // The symbols are found where they must be, so the search below works.
                assert!(found.len() > 50, "cell-{cell}: {found:?}");
            } else {
                assert!(found.is_empty(), "cell-{cell} is linked with {allocator}: {found:?}");
            }
        }
    }
}

#[test]
fn a_cell_without_symbols_holds_the_texts_of_its_own_allocator_only() {
    let folder = tempdir().unwrap();
    for cell in ours() {
        let path = folder.path().join("stripped");
        let bytes = match Command::new("strip").arg("-o").arg(&path).arg(program(cell)).status() {
            Ok(status) => {
                assert!(status.success());
                fs::read(&path).unwrap()
            }
            Err(error) => {
                skipped(format_args!("no `strip` here ({error}); the sections that it would leave are read instead"));
                loaded(&fs::read(program(cell)).unwrap())
            }
        };
        for (allocator, beginnings) in SYMBOLS.iter().filter(|_| path.exists()) {
            assert!(symbols(&bytes, beginnings).is_empty(), "{allocator}: `strip` left symbols");
        }
        for (allocator, texts) in TELLTALES {
            for text in *texts {
                assert_eq!(holds(&bytes, text), cell == *allocator, "cell-{cell}: {allocator}'s {text:?}");
            }
        }
    }
}

/// The bytes of those sections that are loaded into memory.
fn loaded(binary: &[u8]) -> Vec<u8> {
    let file = object::File::parse(binary).unwrap();
    let is_loaded = |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & 2 != 0); // SHF_ALLOC
    let sections = file.sections().filter(|section| is_loaded(section.flags()));
    sections.flat_map(|section| section.data().unwrap_or_default().to_vec()).collect()
}

/// `doctor` and the agent recognise an allocator in a stripped program by such a text. The command writes about all allocators, and its agent
/// sees itself too.
#[test]
fn the_command_has_no_text_of_an_allocator_that_it_does_not_have() {
    let bytes = fs::read(env!("CARGO_BIN_EXE_allocanary")).unwrap();
    for text in ["tcmalloc: allocation failed", "mimalloc: error: "] {
        assert!(!holds(&bytes, text), "{text}");
    }
    assert_eq!(holds(&bytes, "<jemalloc>"), cfg!(feature = "jemalloc"));
}

#[test]
fn what_is_searched_without_strip_finds_the_same() {
    for (allocator, texts) in TELLTALES {
        let bytes = loaded(&fs::read(program(allocator)).unwrap());
        assert!(texts.iter().all(|text| holds(&bytes, text)), "{allocator}");
        let bytes = loaded(&fs::read(program("system")).unwrap());
        assert!(!texts.iter().any(|text| holds(&bytes, text)), "{allocator}");
    }
}

/// A library that a preload needs is loaded into every program. The unwinder of Rust's standard library costs 100 KiB
/// of resident memory as a separate library (`libgcc_s`). On x86-64 it is linked in: crates/preload/src/exported.rs.
#[test]
fn a_preload_needs_the_c_library_alone() {
    for allocator in ours() {
        let output = Command::new("ldd").arg(preload(allocator)).finish();
        let Ok(output) = output else { return skipped("there is no ldd here") };
        let text = String::from_utf8(output.stdout).unwrap();
        let names = text.lines().filter_map(|line| line.split_whitespace().next()?.rsplit('/').next());
        let allowed = |name: &&str| {
            let unwinder = !cfg!(target_arch = "x86_64") && name.starts_with("libgcc_s");
            unwinder
                || ["linux-vdso", "ld-linux", "libc.so.6", "libm.so.6", "statically"]
                    .iter()
                    .any(|known| name.starts_with(known))
        };
        let others: Vec<&str> = names.filter(|name| !allowed(name)).collect();
        assert!(text.contains("libc.so.6") && others.is_empty(), "preload-{allocator} needs {others:?}: {text}");
    }
}
