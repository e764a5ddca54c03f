//! Every place that needs a part for an allocator of `KNOWN` has one, and a place without it is named.

use std::fs;
use std::path::Path;

use allocanary_allocators::allocators::KNOWN;

/// A file that must contain a text for each allocator, with `NAME` in place of the name; and what goes there.
struct Place(&'static str, &'static str, &'static str);

/// The places of every allocator. A wrong part fails to compile; this test checks that the part exists.
const PLACES: &[Place] = &[
    Place("crates/allocators/src/allocators/mod.rs", "mod NAME;", "the contract, `SETTINGS` and `TUNED`, in NAME.rs"),
    Place("crates/allocators/src/install.rs", "    (NAME $(, $($settings:tt)*)?) => {", "an arm of `install!`"),
    Place("src/cells/NAME.rs", "allocanary", "the root of the cell"),
    Place("src/preloads/NAME.rs", "preload!(NAME", "the root of the preload"),
    Place("Cargo.toml", "name = \"cell-NAME\"", "a [[bin]] for the cell"),
    Place("Cargo.toml", "name = \"preload-NAME\"", "a [[bin]] for the preload"),
    Place("build.rs", "\"cell-NAME\"", "the cell's name, in `CELLS`"),
    Place("build.rs", "(\"preload-NAME\",", "the preload's name and its map of exported functions"),
    Place("crates/preload/src/exported.rs", "(NAME, build = $build:expr) => {", "an arm of `preload!`"),
    Place("crates/preload/src/settings.rs", "\"NAME\" => Some(", "its table of settings, and an arm of `table_of`"),
    Place(
        "crates/study/src/study/mod.rs",
        "    \"NAME\",",
        "a line of `PROGRAM_CANDIDATES`, and of its settings by default",
    ),
    Place("crates/command/src/commands/replay.rs", "\"NAME\"", "the candidates of `replay`"),
    Place("crates/search/src/space.rs", "row(\"NAME\"", "what `tune` tries: rows of `DIMENSIONS`"),
    Place("crates/search/src/places.rs", "\"NAME\"", "its settings as lines of C"),
    Place("crates/command/src/args/preload.rs", "NAME", "the help of `preload`"),
    Place("crates/command/src/commands/preload.rs", "NAME", "the error of `preload`"),
    Place("crates/command/src/args/program.rs", "`NAME`", "the help of `run --candidates`"),
    Place("crates/doctor/src/defaults.rs", "allocator: \"NAME\"", "what it does without settings"),
    Place("crates/doctor/src/advice.rs", "allocator: \"NAME\"", "what to advise"),
    Place("c_glue/Cargo.toml", "\nNAME = [", "a feature of the library for C and Go"),
    Place("c_glue/src/lib.rs", "install!(NAME", "its `install!` for C and Go"),
    Place("c_glue/src/lib.rs", "c\"NAME\"", "its name for C and Go"),
    Place("studies/default.toml", "NAME", "a candidate of the shipped studies"),
    Place("tests/it/support.rs", "\"NAME\" =>", "the cell's path for tests"),
    Place("tests/it/preloads.rs", "\"NAME\" => env!", "the preload's path for tests, and `ALLOCATORS`"),
    Place("tests/it/settings.rs", "assert_all_read_back(\"NAME\")", "a test that each setting is read back"),
    Place("tests/it/truth.rs", "\"NAME\"", "a test that each cell checks its data"),
];

/// The places of an allocator that is a crate. The C library's allocator, which is in every program, has none.
const OF_A_CRATE: &[Place] = &[
    Place("Cargo.toml", "\nNAME = [", "a feature that brings the crate"),
    Place("build.rs", "\"NAME\"", "the name of the feature"),
    Place("crates/allocators/Cargo.toml", "\nNAME = [", "a feature, and the crate as an optional dependency"),
    Place("crates/doctor/Cargo.toml", "\nNAME = [", "a feature"),
    Place("crates/preload/Cargo.toml", "\nNAME = [", "a feature"),
    Place("crates/doctor/src/lib.rs", "\"NAME\"", "a `Flavour`, and its name"),
    Place("crates/doctor/src/elf.rs", "(\"NAME\",", "a text by which its code is recognized"),
    Place("crates/doctor/src/identity.rs", "(\"NAME\",", "the name of its shared library"),
    Place("tests/it/binaries.rs", "(\"NAME\",", "its symbols and texts, which no other cell may have"),
];

/// The places that have nothing of this allocator.
fn missing(name: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_a_crate = if name == "system" { &[][..] } else { OF_A_CRATE };
    let lacks = |Place(file, text, what): &Place| {
        let (file, text) = (file.replace("NAME", name), text.replace("NAME", name));
        let found = fs::read_to_string(root.join(&file)).unwrap_or_default();
        (!found.contains(&text)).then(|| format!("{file}: found no `{}`: {what}", text.trim()))
    };
    PLACES.iter().chain(of_a_crate).filter_map(lacks).collect()
}

#[test]
fn every_allocator_has_its_part_in_every_place() {
    for known in KNOWN {
        let missing = missing(known.name);
        assert!(missing.is_empty(), "{} is missing in:\n{}", known.name, missing.join("\n"));
    }
}

/// If the texts matched every file, the test above could not fail.
#[test]
fn an_allocator_that_is_new_is_missing_in_every_place() {
    let missing = missing("newmalloc");
    assert_eq!(missing.len(), PLACES.len() + OF_A_CRATE.len(), "{missing:#?}");
    assert!(missing.iter().any(|line| line.starts_with("src/cells/newmalloc.rs: found no ")), "{missing:#?}");
}
