//! Files of rows: none, several, standard input, and a file that a report would overwrite.

use std::fs;
use std::path::Path;

use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{Ran, allocanary, command, golden_path, words};

fn good() -> String {
    fs::read_to_string(golden_path("rows.jsonl")).unwrap()
}

fn report(folder: &Path, files: &str) -> Ran {
    allocanary(folder, words("report").into_iter().chain(words(files)))
}

/// The number of rows that a report names.
fn rows(ran: &Ran) -> usize {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    let at = words.windows(2).position(|pair| pair[1] == "rows;").unwrap();
    words[at].parse().unwrap()
}

#[test]
fn files_without_rows_are_errors_that_name_them() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("empty.jsonl"), "").unwrap();
    fs::write(folder.path().join("noise.jsonl"), "what\n").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    for (line, said) in [
        ("report empty.jsonl", "allocanary: empty.jsonl: no row that can be reported"),
        ("report noise.jsonl", "noise.jsonl:1: not a row"),
        ("report missing.jsonl", "allocanary: missing.jsonl: reading rows: No such file"),
        ("report folder", "allocanary: folder: a folder without rows: wanted samples.jsonl in it"),
        ("compare empty.jsonl missing.jsonl", "allocanary: empty.jsonl: no row that can be compared"),
    ] {
        let ran = allocanary(folder.path(), words(line));
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{line}: {ran:?}");
        assert!(ran.err.contains(said), "{line}: {}", ran.err);
    }
}

/// A report once overwrote its own rows.
#[test]
fn a_report_is_never_written_over_rows() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let bad_first = format!("no row\n{}", good());
    fs::create_dir(at("out")).unwrap();
    for (name, text) in [("out/samples.jsonl", good()), ("other.jsonl", good()), ("bad.jsonl", bad_first.clone())] {
        fs::write(at(name), text).unwrap();
    }
    std::os::unix::fs::symlink("out/samples.jsonl", at("link")).unwrap();
    for (rows, to, said) in [
        ("out", "out/samples.jsonl", "--output out/samples.jsonl: is one of the files to report"),
        ("out", "link", "--output link: is one of the files to report"),
        ("out", "other.jsonl", "--output other.jsonl: holds rows"),
        ("out bad.jsonl", "bad.jsonl", "--output bad.jsonl: is one of the files to report"),
    ] {
        let ran = report(folder.path(), &format!("{rows} --format csv --output {to}"));
        assert!(ran.code == Some(2) && ran.err.contains(said), "{to}: {ran:?}");
    }
    for (name, text) in [("out/samples.jsonl", good()), ("other.jsonl", good()), ("bad.jsonl", bad_first)] {
        assert_eq!(fs::read_to_string(at(name)).unwrap(), text, "{name}");
    }
    fs::write(at("empty"), "").unwrap();
    for to in ["new.csv", "new.csv", "empty", "/dev/null"] {
        assert_eq!(report(folder.path(), &format!("out --format csv --output {to}")).code, Some(0), "{to}");
    }
    assert!(fs::read_to_string(at("empty")).unwrap().starts_with("workload,"));
}

#[test]
fn several_files_are_read_as_one() {
    let folder = tempdir().unwrap();
    let good = good();
    let count = good.lines().count();
    let half = good.match_indices('\n').nth(count / 2).unwrap().0 + 1;
    for (name, text) in [("whole.jsonl", &good[..]), ("a.jsonl", &good[..half]), ("b.jsonl", &good[half..])] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let (whole, parts) = (report(folder.path(), "whole.jsonl"), report(folder.path(), "b.jsonl a.jsonl"));
    assert_eq!((rows(&whole), &whole.out), (count, &parts.out), "the order of files is no matter");
    let reader = command(folder.path())
        .args(["report", "-"])
        .stdin(fs::File::open(folder.path().join("whole.jsonl")).unwrap())
        .finish()
        .unwrap();
    assert_eq!(Ran::from(reader).out, whole.out, "and neither is standard input");
}
