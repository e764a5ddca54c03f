//! Tests that find the allocator from the marks of programs and libraries.

use super::*;

fn part(path: &str, symbols: &[&'static str], exports: &[&'static str], strings: &[&'static str]) -> ProgramFile {
    let marks = Signs {
        symbols: symbols.iter().chain(exports).copied().collect(),
        exports: exports.iter().copied().collect(),
        strings: strings.iter().copied().collect(),
        has_symbols: !symbols.is_empty(),
        is_dynamic: true,
        imports_malloc: true,
        ..Signs::default()
    };
    ProgramFile { path: path.into(), marks, unread: false }
}

/// A library that was replaced while it was mapped, and cannot be read.
fn deleted(path: &str) -> ProgramFile {
    ProgramFile { path: format!("{path} (deleted)"), marks: Signs::default(), unread: true }
}

fn libc() -> ProgramFile {
    part("/lib/libc.so.6", &[], &["malloc"], &[])
}

fn of(program: ProgramFile, libraries: &[ProgramFile]) -> (Flavour, Option<Flavour>, Certainty) {
    let identity = identify(&program, libraries);
    (identity.main.flavour, identity.c.map(|found| found.flavour), identity.main.sure)
}

const RUST: Flavour = Flavour::RustJemalloc { installs: false };

#[test]
fn a_static_allocator_is_known_by_symbols_and_without_them_by_strings() {
    let c = Some(Flavour::Glibc);
    assert_eq!(of(part("/a", &["_rjem_mallctl"], &[], &[]), &[libc()]), (RUST, c, Certainty::Yes));
    assert_eq!(of(part("/a", &["mi_version"], &[], &[]), &[libc()]), (Flavour::Named("mimalloc"), c, Certainty::Yes));
    assert_eq!(of(part("/a", &[], &[], &["jemalloc", "rjem"]), &[libc()]), (RUST, c, Certainty::Likely));
    let installed = part("/a", &[], &[], &["jemalloc", "rjem", "install"]);
    assert_eq!(of(installed, &[libc()]).0, Flavour::RustJemalloc { installs: true });
    assert_eq!(of(part("/a", &[], &[], &["mimalloc"]), &[libc()]).0, Flavour::Named("mimalloc"));
    assert_eq!(of(part("/a", &["main"], &[], &["mimalloc"]), &[libc()]).0, Flavour::Glibc, "only a text");
    assert_eq!(of(part("/a", &[], &[], &[]), &[libc()]), (Flavour::Glibc, None, Certainty::Yes));
}

#[test]
fn what_malloc_is_bound_to_counts_and_not_what_is_mapped() {
    let jemalloc = part("/lib/libjemalloc.so.2", &[], &["malloc", "mallctl"], &[]);
    let preloaded = of(part("/a", &[], &[], &[]), &[jemalloc.clone(), libc()]);
    assert_eq!(preloaded, (Flavour::PlainJemalloc, None, Certainty::Likely));
    // A program that exports its own malloc does not use the preloaded one.
    let identity = identify(&part("/a", &["mi_version"], &["malloc"], &[]), &[jemalloc, libc()]);
    assert_eq!((identity.main.flavour, &identity.c), (Flavour::Named("mimalloc"), &None));
    assert!(identity.notes[0].contains("malloc is not bound to it"), "{:?}", identity.notes);
}

#[test]
fn a_deleted_library_that_cannot_be_read_is_known_by_its_name_or_lowers_the_certainty() {
    let found = |library: &str| of(part("/a", &[], &[], &[]), &[deleted(library), libc()]);
    for (library, flavour) in [
        ("/lib/libjemalloc.so.2", Flavour::PlainJemalloc),
        ("/lib/libmimalloc.so.3.0", Flavour::Named("mimalloc")),
        ("/lib/libtcmalloc_minimal.so.4", Flavour::Named("tcmalloc")),
        ("/lib/libsnmallocshim.so", Flavour::Named("snmalloc")),
        ("/opt/preload-jemalloc", Flavour::RustJemalloc { installs: true }),
        ("/opt/preload-mimalloc", Flavour::Named("mimalloc")),
        ("/opt/preload-system", Flavour::Glibc),
        ("/lib/libz.so.1", Flavour::Glibc),
    ] {
        assert_eq!(found(library), (flavour, None, Certainty::Likely), "{library}");
    }
    let other = identify(&part("/a", &[], &[], &[]), &[libc(), deleted("/lib/libz.so.1")]);
    assert!(other.main.how.contains("unless /lib/libz.so.1 (deleted) has one, which could not be read"), "{other:?}");
    // If the C library itself was upgraded, the allocator is still certain. A file that is not a library has no malloc.
    let all = ["/lib/libc.so.6", "/lib/ld-linux-x86-64.so.2", "/memfd:doublemapper"].map(deleted);
    assert_eq!(of(part("/a", &[], &[], &[]), &all), (Flavour::Glibc, None, Certainty::Yes));
    assert_eq!(super::libc(&part("/a", &[], &[], &[]), &all), "libc.so.6 (deleted)");
}

#[test]
fn the_malloc_of_the_loader_the_recorder_and_the_profiler_is_not_the_programs() {
    for path in
        ["/lib/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/ld-2.31.so", "/opt/preload-record", "/opt/preload-profile"]
    {
        let aside = part(path, &[], &["malloc"], &[]);
        assert_eq!(of(part("/a", &[], &[], &[]), &[aside, libc()]), (Flavour::Glibc, None, Certainty::Yes), "{path}");
    }
}

#[test]
fn an_unprefixed_static_jemalloc_is_cs_malloc_too() {
    let program = part("/a", &["mallctl", "malloc"], &[], &[]);
    assert_eq!(of(program, &[]), (Flavour::PlainJemalloc, None, Certainty::Yes));
}

#[test]
fn a_malloc_of_the_programs_own_is_unknown_and_not_the_c_librarys() {
    let exports = || part("/a", &["main"], &["malloc"], &[]);
    assert_eq!(of(exports(), &[libc()]), (Flavour::Unknown, None, Certainty::Likely));
    let library = part("/lib/libown.so", &[], &["malloc"], &[]);
    assert_eq!(of(part("/a", &[], &[], &[]), &[library, libc()]).0, Flavour::Unknown);
    // A stripped program with jemalloc's messages: its malloc is jemalloc's.
    let stripped = part("/a", &[], &["malloc"], &["jemalloc", "plain"]);
    assert_eq!(of(stripped, &[libc()]), (Flavour::PlainJemalloc, None, Certainty::Likely));
    // A static program may export the C library's malloc.
    let exported = part("/a", &["main"], &["malloc"], &["glibc"]);
    assert_eq!(of(exported, &[]), (Flavour::Glibc, None, Certainty::Likely));
}

#[test]
fn a_hidden_malloc_is_unknown_and_without_symbols_the_c_librarys_is_a_guess() {
    let hidden = part("/a", &["main", "malloc"], &[], &[]);
    assert_eq!(of(hidden, &[libc()]), (Flavour::Unknown, Some(Flavour::Glibc), Certainty::Likely));
    let mut stripped = part("/a", &[], &[], &[]);
    stripped.marks.imports_malloc = false;
    assert_eq!(of(stripped.clone(), &[libc()]), (Flavour::Glibc, None, Certainty::Likely));
    assert!(identify(&stripped, &[libc()]).main.how.contains("may have an allocator of its own"));
}

#[test]
fn a_static_program_with_a_malloc_of_its_own_is_not_called_glibcs() {
    let linked = |symbols: &[&'static str]| {
        let mut program = part("/a", symbols, &[], &["glibc"]);
        program.marks.is_dynamic = false;
        of(program, &[])
    };
    assert_eq!(linked(&["main", "malloc"]), (Flavour::Unknown, None, Certainty::Likely));
    assert_eq!(linked(&["main", "malloc", "__libc_malloc"]), (Flavour::Glibc, None, Certainty::Likely));
}

#[test]
fn the_recorder_is_no_allocator() {
    let recorder = part("/opt/preload-record", &[], &["malloc"], &[]);
    assert_eq!(of(part("/a", &[], &[], &[]), &[recorder, libc()]), (Flavour::Glibc, None, Certainty::Yes));
}

#[test]
fn a_go_program_has_gos_runtime_and_c_only_beside_it() {
    let go = |mut program: ProgramFile| {
        program.marks.go = true;
        program
    };
    assert_eq!(of(go(part("/a", &[], &[], &[])), &[]), (Flavour::Go, None, Certainty::Yes));
    let cgo = go(part("/a", &["main"], &[], &[]));
    assert_eq!(of(cgo, &[libc()]), (Flavour::Go, Some(Flavour::Glibc), Certainty::Yes));
    let with_jemalloc = go(part("/a", &["je_mallctl"], &[], &[]));
    assert_eq!(of(with_jemalloc, &[libc()]), (Flavour::Go, Some(Flavour::PrefixedJemalloc), Certainty::Yes));
}

#[test]
fn a_static_program_tells_its_c_library() {
    let program = part("/a", &[], &[], &["glibc"]);
    assert_eq!(of(program.clone(), &[]), (Flavour::Glibc, None, Certainty::Likely));
    assert_eq!(super::libc(&program, &[]), "glibc, linked statically");
    assert_eq!(of(part("/a", &[], &[], &[]), &[]).0, Flavour::OtherLibc);
}

#[test]
fn two_allocators_in_one_program_are_a_guess() {
    let identity = identify(&part("/a", &["_rjem_mallctl", "mi_version"], &[], &[]), &[libc()]);
    assert_eq!(identity.main.sure, Certainty::Likely);
    assert!(identity.notes[0].contains("_rjem_mallctl, mi_version"));
}
