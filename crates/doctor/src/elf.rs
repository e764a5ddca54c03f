//! Finds marks of allocators in an ELF file: known symbols that it defines, and known texts in its loaded parts. The file is read in
//! pieces, so that a program of hundreds of megabytes is never in memory as a whole.

use std::io;
use std::os::unix::fs::FileExt;

use crate::allocators::ALL;
use crate::signs::{GLIBC_MALLOC, MALLOC, Signs};
use allocanary_facts::{jemalloc, mimalloc};
use allocanary_process::Opened;
use allocanary_process::elf::{self, Elf, SymbolSection};
use memchr::memmem;

/// The symbols that only an allocator defines, and `malloc` itself.
fn symbols() -> impl Iterator<Item = &'static str> {
    let of_allocators = ALL.iter().flat_map(|part| part.marks.symbols).map(|(symbol, _)| *symbol);
    of_allocators.chain([MALLOC, GLIBC_MALLOC])
}

/// Functions that a program imports if it uses another file's malloc: C's functions, and C++'s `new` for both widths of `size_t`.
const CALLS: [&str; 7] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "_Znwm", "_Znwj"];

/// The path of std in the source locations of Rust's panics. It is stored reversed, like all texts that are searched for, because this
/// command must not contain them.
pub const RUST: (&str, &[u8]) = ("rust", b"/crs/eroc/yrarbil");

/// A function that CPython exports.
const CPYTHON: &str = "Py_GetVersion";

/// A text, reversed, in the version of a CPython without the global lock. CPython has contained mimalloc since 3.13. It uses mimalloc only
/// in these builds, or if `PYTHONMALLOC` says so. Otherwise malloc serves its larger objects.
const FREE_THREADING: (&str, &[u8]) = ("free-threading", b"dliub gnidaerht-eerf");

/// Texts that survive stripping, each with its name in [`Signs::strings`].
fn strings() -> Vec<(&'static str, &'static [u8])> {
    let is_judged = |name: &str| ALL.iter().any(|part| part.of.heap == name && !part.marks.is_c_library());
    let of_heaps = allocanary_walkers::texts().filter(|(name, _)| is_judged(name));
    of_heaps.chain(ALL.iter().flat_map(|part| part.marks.texts.iter().copied())).chain([RUST, FREE_THREADING]).collect()
}

/// The section with Go's build information. Stripping keeps it.
const GO: &str = ".go.buildinfo";

/// The number of bytes that are searched at a time, and the overlap with the next piece. The overlap is longer than the
/// longest text that is searched for.
const PIECE: usize = 1 << 20;
const AGAIN: usize = 256;

/// Reads the marks; `None` if the file is not an ELF file. Symbols are only read of files with 64-bit addresses.
pub fn marks(file: &Opened) -> io::Result<Option<Signs>> {
    if file.head(4)? != b"\x7fELF" {
        return Ok(None);
    }
    let mut marks = Signs::default();
    let mut is_cpython = false;
    let mut loaded = vec![(0, file.stamp.bytes)];
    let data = elf::cache(file);
    if let Some(elf) = Elf::of(&data) {
        loaded = elf.loaded().map(|[_, place, bytes, _]| (place, bytes)).collect();
        marks.go = elf.section(GO).is_some();
        let all: Vec<&str> = symbols().collect();
        let known = |name: &str| all.iter().copied().find(|symbol| *symbol == name);
        for symbol in elf.symbols(SymbolSection::Dynamic).into_iter().flatten() {
            match symbol.is_defined {
                true => {
                    is_cpython |= symbol.name == CPYTHON;
                    // The version of `malloc@@VERSION` is stored separately, so the name does not contain it.
                    marks.exports.extend(known(symbol.name));
                }
                // The first symbol of each table has no name.
                false if symbol.name.is_empty() => {}
                false => {
                    marks.is_dynamic = true;
                    marks.imports_malloc |= CALLS.contains(&symbol.name);
                }
            }
        }
        for symbol in elf.symbols(SymbolSection::Full).into_iter().flatten().filter(|symbol| !symbol.name.is_empty()) {
            marks.has_symbols = true;
            if symbol.is_defined {
                let name = symbol.name;
                marks.symbols.extend(known(name));
                marks.hook |= name.contains("allocanary") && name.contains("install") && name.contains("boot");
            }
        }
        marks.symbols.extend(&marks.exports);
    }
    let texts = strings();
    each_piece(file, &loaded, |piece| {
        for &(name, backwards) in &texts {
            if !marks.strings.contains(name) && find(piece, backwards).is_some() {
                marks.strings.insert(name);
            }
        }
        marks.glibc = marks.glibc.take().or_else(|| glibc_version(piece));
    })?;
    if is_cpython && !marks.strings.contains(FREE_THREADING.0) {
        marks.strings.remove(mimalloc::NAME);
    }
    // This is done only if the file contains such an allocator, because these searches for a pattern are slow.
    let (jemalloc, mimalloc) = (marks.strings.contains(jemalloc::NAME), marks.strings.contains(mimalloc::NAME));
    if jemalloc || mimalloc {
        each_piece(file, &loaded, |piece| {
            if jemalloc {
                marks.jemalloc = marks.jemalloc.take().or_else(|| jemalloc_version(piece));
            }
            if mimalloc {
                marks.words.extend(words(piece).map(str::to_string));
            }
        })?;
    }
    Ok(Some(marks))
}

/// Calls `look` with each piece of the ranges (start and length, in bytes) of a file. A range beyond its end is cut.
fn each_piece(file: &Opened, ranges: &[(u64, u64)], mut look: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    for (start, length) in ranges {
        let (mut at, end) = (*start, start.saturating_add(*length));
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let mut read = 0;
            while read < wanted {
                match file.file.read_at(&mut buffer[read..wanted], at + read as u64) {
                    Ok(0) => break,
                    Ok(more) => read += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            look(&buffer[..read]);
            if read < PIECE {
                break;
            }
            at += (PIECE - AGAIN) as u64;
        }
    }
    Ok(())
}

/// The version in `GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.`
fn glibc_version(bytes: &[u8]) -> Option<String> {
    let banner = b" noisrev esaeler elbats )";
    let at = find(bytes, banner)? + banner.len();
    let version = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.');
    let version: String = version.map(|byte| char::from(*byte)).collect();
    Some(version.trim_end_matches('.').to_string()).filter(|version| !version.is_empty())
}

/// The version in `5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8`, jemalloc's format: release, commits since,
/// commit.
fn jemalloc_version(bytes: &[u8]) -> Option<String> {
    const COMMIT: usize = 40;
    let is_commit = |text: &[u8]| text.len() == COMMIT && text.iter().all(u8::is_ascii_hexdigit);
    let mut from = 0;
    while let Some(at) = find(&bytes[from..], b"g-") {
        let at = from + at;
        from = at + 2;
        if !bytes.get(from..from + COMMIT).is_some_and(is_commit) {
            continue;
        }
        let is_part = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
        let length = bytes[..at].iter().rev().take_while(is_part).count();
        let text = std::str::from_utf8(&bytes[at - length..at]).unwrap_or_default();
        let release = text.split('-').next().unwrap_or_default();
        if release.matches('.').count() == 2 && !release.split('.').any(str::is_empty) {
            return Some(release.to_string());
        }
    }
    None
}

/// Texts between NULs that may be names of options.
fn words(bytes: &[u8]) -> impl Iterator<Item = &str> {
    let is_word = |text: &&[u8]| {
        (4..=64).contains(&text.len())
            && text.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_')
    };
    bytes.split(|byte| *byte == 0).filter(is_word).filter_map(|text| std::str::from_utf8(text).ok())
}

/// The position of a text, which is given reversed.
fn find(bytes: &[u8], backwards: &[u8]) -> Option<usize> {
    let text: Vec<u8> = backwards.iter().rev().copied().collect();
    memmem::find(bytes, &text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use allocanary_testing::programs::compiled_text;

    fn opened(path: impl AsRef<Path>) -> Opened {
        Opened::of(std::fs::File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn strings_are_found_from_their_reverse() {
        assert_eq!(find(b"xx<jemalloc>: text", b">collamej<"), Some(2));
        assert_eq!(find(b"xx<jemallo", b">collamej<"), None);
        assert_eq!(find(b"<<jemalloc>", b">collamej<"), Some(1));
        let banner = b"GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright";
        assert_eq!(glibc_version(banner).as_deref(), Some("2.36"));
        assert_eq!(glibc_version(b"musl"), None);
    }

    #[test]
    fn jemalloc_writes_its_version_before_its_commit() {
        let version = |text: &str| jemalloc_version(text.as_bytes());
        let commit = "g81034ce1f1373e37dc865038e1bc8eeecf559ce8";
        assert_eq!(version(&format!("x\x00not-good\x005.3.1-0-{commit}\0")).as_deref(), Some("5.3.1"));
        assert_eq!(version(&format!("5.3.1-0-{}", &commit[..20])), None);
        assert_eq!(version(&format!("-0-{commit}")), None);
        assert_eq!(version("-g"), None);
    }

    #[test]
    fn a_text_on_the_border_of_two_pieces_is_found() {
        let opened = Opened::of(tempfile::tempfile().unwrap()).unwrap();
        let file = &opened.file;
        for at in [PIECE - 5, PIECE - AGAIN, 2 * PIECE - AGAIN - 3] {
            let mut bytes = vec![0; 3 * PIECE];
            bytes[at..at + 10].copy_from_slice(b"<jemalloc>");
            file.set_len(0).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            let mut found = false;
            each_piece(&opened, &[(0, u64::MAX)], |piece| found |= find(piece, b">collamej<").is_some()).unwrap();
            assert!(found, "at {at}");
        }
    }

    #[test]
    fn words_stand_between_nuls() {
        let found: Vec<&str> = words(b"%s\0allow_thp\0No\0x\0purge_delay\0two words\0").collect();
        assert_eq!(found, ["allow_thp", "purge_delay"]);
    }

    #[test]
    fn this_test_has_no_allocator_but_the_libc_and_garbage_has_no_marks() {
        let of = |text: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, text).unwrap();
            marks(&Opened::of(file).unwrap()).unwrap()
        };
        assert_eq!(of(b"#!/bin/sh\n"), None);
        assert_eq!(of(b""), None);
        let marks = marks(&opened("/proc/self/exe")).unwrap().unwrap();
        assert!(!marks.exports.contains("malloc") && marks.has_symbols && !marks.go);
        assert!(marks.strings.contains("rust"), "{marks:?}");
    }

    /// The marks of a library that the C compiler makes of these lines. jemalloc needs this compiler as well.
    fn compiled(source: &str) -> Signs {
        let folder = tempfile::tempdir().unwrap();
        let library = compiled_text(folder.path(), "a.c", source, &["-shared"]).expect("a C compiler");
        marks(&opened(library)).unwrap().unwrap()
    }

    #[test]
    fn mimalloc_inside_of_cpython_serves_nobody_unless_there_is_no_global_lock() {
        let mimalloc_is_marked = |version: &str, function: &str| {
            let source = format!(
                r#"const char *text = "mimalloc: error: %s"; const char *{function}(void) {{ return "{version}"; }}"#
            );
            compiled(&source).strings.contains(mimalloc::NAME)
        };
        assert!(mimalloc_is_marked("3.13.5 (main)", "version_of_another_program"));
        assert!(!mimalloc_is_marked("3.13.5 (main)", CPYTHON));
        assert!(mimalloc_is_marked("3.14.0 free-threading build (main)", CPYTHON));
    }
}
