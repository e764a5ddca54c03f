//! The repository's own rules: who may know whom, and what every file carries.

use std::fs;
use std::path::Path;

/// Files that are longer than the rest, each with the reason.
const LONG: &[(&str, &str)] = &[];
const LONGEST: usize = 300;

/// Where, which words, and why they may not stand there.
const NEVER: &[(&[&str], &[&str], &str)] = &[
    (
        &["src/worker.rs"],
        &["crate::run", "crate::commands", "crate::study", "crate::reports"],
        "a child knows no parent",
    ),
    (&["src/allocators/", "src/cells/"], &["crate::worker", "crate::run", "crate::meters"], "an allocator is measured"),
    (&["src/run/"], &["crate::worker", "crate::workloads", "crate::meters", "crate::allocators"], "the parent asks"),
    (
        &["src/workloads/", "src/workload.rs"],
        &["crate::meters", "crate::meter", "crate::allocators"],
        "a load is blind",
    ),
    (&["src/meters/", "src/meter.rs"], &["crate::workloads", "crate::allocators"], "a meter sees a process"),
    (&["src/summary/", "src/reports/", "src/report.rs"], &["crate::run", "crate::worker"], "views start from rows"),
    (&["src/summary/"], &["crate::reports", "crate::report"], "numbers come before texts"),
    (
        &["src/error.rs", "src/units.rs", "src/rng.rs", "src/sys.rs"],
        &["crate::run", "crate::study", "crate::cell", "crate::sample", "crate::workload"],
        "the ground floor imports nothing of ours",
    ),
];

/// Who may write to a terminal: the verbs, the last word of main, a cell's refusal, and the row that no disk took.
/// (`fuzz.rs` is of tests alone, and must speak before a test that may never end.)
const PRINTERS: &[&str] = &["src/commands/", "src/main.rs", "src/worker.rs", "src/run/store.rs", "src/fuzz.rs"];

/// Every source file with its text, the part for tests cut off.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src")];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push((relative(root, &path), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    sources.sort();
    assert!(sources.len() > 40);
    sources
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap().display().to_string()
}

fn is_in(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path == *place || (place.ends_with('/') && path.starts_with(place)))
}

/// The code of a file: no comments, and nothing from its tests on.
fn code(text: &str) -> Vec<&str> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let text = text.split("#[cfg(all(test").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect()
}

/// Whether a path such as `crate::run` stands in a line as a whole, and not as the beginning of `crate::runner`.
fn names(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let next = line[at + word.len()..].chars().next();
        !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
    })
}

#[test]
fn every_file_says_at_its_head_what_it_is() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{path} begins with no `//!`");
    }
}

#[test]
fn files_stay_short() {
    for (path, text) in sources() {
        let excused = LONG.iter().any(|(long, _)| *long == path);
        assert_eq!(text.lines().count() > LONGEST, excused, "{path} has {} lines", text.lines().count());
    }
}

#[test]
fn no_arrow_points_the_wrong_way() {
    for (path, text) in sources() {
        for line in code(&text) {
            for (places, words, why) in NEVER {
                let word = words.iter().find(|word| is_in(&path, places) && names(line, word));
                assert_eq!(word, None, "{path}: {why}: {line}");
            }
            let front = ["src/commands/", "src/main.rs"];
            assert!(is_in(&path, &front) || !names(line, "crate::commands"), "{path}: nothing calls a verb: {line}");
            // The child's and the parent's towers are joined by messages; a `use` in braces would hide an arrow.
            assert!(!line.contains("use crate::{"), "{path}: one line for each room: {line}");
        }
    }
}

#[test]
fn only_one_file_knows_the_argument_library() {
    for (path, text) in sources() {
        assert_eq!(code(&text).iter().any(|line| names(line, "clap")), path == "src/args.rs", "{path}");
    }
}

#[test]
fn only_the_verbs_print() {
    for (path, text) in sources() {
        let line = code(&text)
            .into_iter()
            .find(|line| ["println!", "print!", "dbg!", "stdout()", "stderr()"].iter().any(|word| line.contains(word)));
        assert!(line.is_none() || is_in(&path, PRINTERS), "{path}: {line:?}");
    }
}

#[test]
fn every_group_of_dependencies_says_why() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let mut in_dependencies = false;
    let mut groups = 0;
    let mut before = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line.ends_with("dependencies]");
        } else if in_dependencies && line.contains(" = ") && (before.is_empty() || before.starts_with('[')) {
            panic!("Cargo.toml: no comment above `{line}`");
        } else if in_dependencies && line.starts_with('#') {
            groups += 1;
        }
        before = line;
    }
    assert!(groups > 5, "{groups}");
}
