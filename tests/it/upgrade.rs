//! `allocanary upgrade` as a user runs it: two candidates under one program, and under several.

use std::fs;

use tempfile::tempdir;

use super::support::{allocanary, samples, words};

#[test]
fn one_program_is_run_under_both_and_several_get_one_table_and_one_sentence() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, text) in [("one.toml", "one"), ("two.toml", "two")] {
        fs::write(at(name), format!("[program]\ncommand = ['echo', '{text}']\n")).unwrap();
    }
    let run = |line: &str| allocanary(folder.path(), words(line));
    let both = "upgrade --from system --to system:arena_max=1 --repeats 1";
    let ran = run(&format!("{both} --out single -- true"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.out.contains("From system to"), "{}", ran.out);

    let ran = run(&format!("{both} --out out --program one.toml --program two.toml"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("\nprogram  metric  system"), "{}", ran.out);
    let said = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("From system to system:arena_max=1: no difference is shown: of 2 programs, undecided in 2"),
        "{said}"
    );
    let rows = samples(&at("out"));
    let mut seen: Vec<_> =
        rows.iter().map(|row| (row.cell.study.clone().unwrap(), row.cell.candidate.to_string())).collect();
    seen.sort();
    let wanted = |study: &str, candidate: &str| (study.to_string(), candidate.to_string());
    let candidates = ["system", "system:arena_max=1"];
    let all: Vec<_> = ["one", "two"].iter().flat_map(|study| candidates.map(|name| wanted(study, name))).collect();
    assert_eq!(seen, all);
    // Each program's output is its own: the two differ, and no row fails for that.
    assert!(rows.iter().all(|row| row.error.is_none()), "{rows:?}");

    let ran = run(&format!("{both} --out out --resume --program one.toml --program two.toml"));
    assert!(ran.code == Some(0) && samples(&at("out")).len() == 4, "{ran:?}");
}

#[test]
fn what_is_no_upgrade_is_refused_with_what_to_do() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("none.toml"), "repeats = 1\n").unwrap();
    for (line, said) in [
        ("--from system --to system -- true", "--to: wanted another candidate than --from, found system twice"),
        ("--from system --to mimalloc", "wanted a program after `--`, or --program FILE, found neither"),
        ("--from system --to mimalloc --program none.toml", "none.toml: wanted a [program] table, found none"),
        (
            "--from system --to mimalloc --program none.toml -- true",
            "--program: wanted files, or one program after `--`",
        ),
        ("--from system --to mimalloc --resume -- true", "--resume: wanted --out"),
        ("--from system --to jemalloc@9 -- true", "no candidate `jemalloc@9`"),
    ] {
        let ran = allocanary(folder.path(), words(&format!("upgrade {line}")));
        assert!(ran.code == Some(2) && ran.err.contains(said), "{line}: {ran:?}");
    }
}
