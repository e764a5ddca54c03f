//! Files of rows that are not whole: each bad line is named as FILE:LINE, and the rest is reported.

use std::fs;
use std::path::Path;

use tempfile::tempdir;

use super::support::{Ran, allocanary, command, golden_path, samples, words};

fn good() -> String {
    fs::read_to_string(golden_path("rows.jsonl")).unwrap()
}

fn report(folder: &Path, files: &str) -> Ran {
    allocanary(folder, words("report").into_iter().chain(words(files)))
}

/// How many rows a report says it is made of.
fn rows(ran: &Ran) -> usize {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    let at = words.windows(2).position(|pair| pair[1] == "rows;").unwrap();
    words[at].parse().unwrap()
}

#[test]
fn bad_lines_are_named_and_the_rest_is_reported() {
    let folder = tempdir().unwrap();
    let good = good();
    let lines: Vec<&str> = good.lines().collect();
    let later = lines[0].replacen("\"schema\":1", "\"schema\":2", 1);
    // Of a later schema, and not even of today's shape.
    let alien = "{\"schema\":7,\"cells\":[]}";
    let text =
        [lines[0], "{\"schema\":1,\"cell\":", "", &later, alien, "no JSON", lines[1], &lines[2][..90]].join("\n");
    fs::write(folder.path().join("bad.jsonl"), text).unwrap();
    for format in ["table", "markdown", "csv"] {
        let ran = report(folder.path(), &format!("bad.jsonl --format {format}"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let said = ran.out + &ran.err;
        for line in [
            "bad.jsonl:2: not a row: EOF",
            "bad.jsonl:4: not a row: schema 2, and this command reads 1",
            "bad.jsonl:5: not a row: schema 7, and this command reads 1",
            "bad.jsonl:6: not a row: expected",
            "bad.jsonl:8: the last line is torn, as a kill leaves it: EOF",
        ] {
            assert!(said.contains(line), "{format}: wanted {line} in {said}");
        }
        assert_eq!(said.matches("bad.jsonl:").count(), 5, "{format}: {said}");
    }
    assert_eq!(rows(&report(folder.path(), "bad.jsonl")), 2);
}

#[test]
fn a_whole_last_line_without_its_newline_counts() {
    let folder = tempdir().unwrap();
    let text = good();
    fs::write(folder.path().join("a.jsonl"), text.trim_end()).unwrap();
    let ran = report(folder.path(), "a.jsonl");
    assert_eq!(rows(&ran), text.lines().count());
    assert!(!ran.out.contains("a.jsonl:"), "{}", ran.out);
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

/// The report took the place of its own rows.
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
        ("out", "out/samples.jsonl", "--to out/samples.jsonl: is one of the files to report"),
        ("out", "link", "--to link: is one of the files to report"),
        ("out", "other.jsonl", "--to other.jsonl: holds rows"),
        ("out bad.jsonl", "bad.jsonl", "--to bad.jsonl: is one of the files to report"),
    ] {
        let ran = report(folder.path(), &format!("{rows} --format csv --to {to}"));
        assert!(ran.code == Some(2) && ran.err.contains(said), "{to}: {ran:?}");
    }
    for (name, text) in [("out/samples.jsonl", good()), ("other.jsonl", good()), ("bad.jsonl", bad_first)] {
        assert_eq!(fs::read_to_string(at(name)).unwrap(), text, "{name}");
    }
    fs::write(at("empty"), "").unwrap();
    for to in ["new.csv", "new.csv", "empty", "/dev/null"] {
        assert_eq!(report(folder.path(), &format!("out --format csv --to {to}")).code, Some(0), "{to}");
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
        .output()
        .unwrap();
    assert_eq!(Ran::from(reader).out, whole.out, "and neither is standard input");
}

#[test]
fn hosts_with_different_cores_are_never_mixed() {
    let folder = tempdir().unwrap();
    let write = |name: &str, rows: &[_]| {
        let lines: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
        fs::write(folder.path().join(name), lines.join("\n") + "\n").unwrap();
    };
    let mut rows = samples(&golden_path("rows.jsonl"));
    write("small.jsonl", &rows);
    let own = rows[0].provenance.host.cores;
    for row in &mut rows {
        row.provenance.host.cores = 64;
        row.provenance.host.name = "large".into();
        for value in row.answer.iter_mut().flat_map(|answer| answer.readings.get_mut("rss_bytes")).flatten() {
            *value = value.map(|bytes| bytes + (500 << 20));
        }
    }
    write("large.jsonl", &rows);
    let medians = |files: &str, title: &str| -> Vec<f64> {
        let csv = report(folder.path(), &format!("{files} --format csv")).out;
        let lines = csv.lines().filter(|line| line.starts_with(title) && line.contains(",rss,bytes,"));
        lines.map(|line| line.split(",bytes,").nth(1).unwrap().split(',').nth(1).unwrap().parse().unwrap()).collect()
    };
    let alone = medians("small.jsonl", "server,");
    assert!(!alone.is_empty());
    let (small, large) = (format!("\"server, on hosts with {own} cores\""), "\"server, on hosts with 64 cores\"");
    assert_eq!(medians("small.jsonl large.jsonl", &small), alone);
    let moved: Vec<f64> = alone.iter().map(|median| median + f64::from(500 << 20)).collect();
    assert_eq!(medians("small.jsonl large.jsonl", large), moved);
}
