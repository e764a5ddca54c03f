//! Several studies in one run: rows that name their study, one report with a section for each, and full sizes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::{TempDir, tempdir};

use super::support::{TINY, allocanary, samples, words};

/// A study with two sizes, of which one cannot fit, and a third that fits with other threads.
const SIZES: &str = "name = 'small'\nquestion = 'Which size?'\ncandidates = ['system']\nmetrics = ['per_op']\nrepeats = 1\n\
                     [[published]]\nby = 'Somebody, 1999'\nwhat = 'one operation'\nfigure = '7 ns'\n\
                     [[full]]\nmemory = '2MiB'\nworkloads = ['small:live=128,operations=1000']\nthreads = [1, 2]\n\
                     [[full]]\nmemory = '4000GiB'\nworkloads = ['small:live=512,operations=1000']\n\
                     [[full]]\nmemory = '1MiB'\nworkloads = ['small:live=64,operations=1000']\nthreads = [1]\nrepeats = 2\n";

/// Two studies, the second with metrics, a published figure and a full size.
fn folder() -> TempDir {
    let folder = tempdir().unwrap();
    let smaller = TINY.replace("64", "32");
    let text = format!(
        "[[study]]\nname = 'one'\nquestion = 'Which is least?'\ncandidates = ['system', 'jemalloc']\n\
         workloads = ['{TINY}']\nthreads = [1]\nrepeats = 2\n\
         [[study]]\nname = 'small'\nquestion = 'Which is fastest?'\ncandidates = ['system', 'mimalloc']\n\
         workloads = ['{TINY}', '{smaller}']\nthreads = [1, 2]\nrepeats = 2\nmetrics = ['per_op', 'user', 'peak_resident']\n\
         [[study.published]]\nby = 'Somebody, 1999'\nwhat = 'one operation'\nfigure = '7 ns'\n\
         [[study.full]]\nmemory = '1MiB'\nrepeats = 1\nworkloads = ['{TINY}']\n"
    );
    fs::write(folder.path().join("two.toml"), text).unwrap();
    folder
}

fn run(folder: &Path, line: &str) -> super::support::Ran {
    allocanary(folder, words(line))
}

#[test]
fn a_group_is_one_run_with_a_section_for_each_study() {
    let folder = folder();
    let ran = run(folder.path(), "study two.toml --out-dir out");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    let mut counts = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(row.cell.study.as_deref().unwrap()).or_insert(0) += 1);
    assert_eq!(counts, BTreeMap::from([("one", 4), ("small", 16)]));
    let at = |text: &str| ran.out.find(text).unwrap_or_else(|| panic!("no {text} in {}", ran.out));
    assert!(at("one: Which is least?") < at("small: Which is fastest?"));
    assert!(at("MiB resident when idle") < at("per_op"), "a study without metrics is shown as ever");
    assert!(at("live=64, operations=1000, settle=1ms, 2 threads") < at("Published"));
    at("- Somebody, 1999: one operation: 7 ns");
    assert!(ran.out.lines().all(|line| line.chars().count() <= 120), "{}", ran.out);

    // Every view starts from rows and the file beside them.
    assert_eq!(run(folder.path(), "report out").out, ran.out);
    let markdown = run(folder.path(), "report out --format markdown").out;
    assert!(
        markdown.contains("## small: Which is fastest?\n\n| | candidate | n | per_op | user | peak_resident |"),
        "{markdown}"
    );
    let csv = run(folder.path(), "report out --format csv").out;
    assert!(csv.lines().next().unwrap().ends_with(",failed,study,unproven"), "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.ends_with(",one,") || line.ends_with(",small,")), "{csv}");
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("<h2>small: Which is fastest?</h2>") && page.contains("Somebody, 1999"), "{page}");

    // Rows alone, in any order, keep the order of the studies.
    let text = fs::read_to_string(folder.path().join("out/samples.jsonl")).unwrap();
    let backwards: Vec<&str> = text.lines().rev().collect();
    fs::create_dir(folder.path().join("alone")).unwrap();
    fs::write(folder.path().join("alone/rows.jsonl"), backwards.join("\n") + "\n").unwrap();
    let alone = run(folder.path(), "report alone/rows.jsonl").out;
    assert!(alone.starts_with("one\n\n") && alone.contains("\nsmall\n\n"), "no file says what they ask: {alone}");

    // Rows belong to their study: cells of the same name in the other study do not replace them.
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("\"study\":\"one\"")).collect();
    fs::write(folder.path().join("out/samples.jsonl"), kept.join("\n") + "\n").unwrap();
    let resumed = run(folder.path(), "study --resume --out-dir out");
    assert_eq!((resumed.code, samples(&folder.path().join("out")).len()), (Some(0), 20), "{resumed:?}");
}

#[test]
fn flags_hold_for_every_study_and_workloads_are_refused() {
    let folder = folder();
    let plan = run(folder.path(), "study --plan two.toml --repeats 1 --threads 4 --candidates jemalloc").out;
    assert_eq!(plan.matches("jemalloc, small:").count(), 3, "{plan}");
    assert_eq!(plan.matches("4 threads").count(), 3, "{plan}");
    assert!(plan.contains("one: Which is least?") && plan.ends_with('\n'), "{plan}");
    let ran = run(folder.path(), "study --plan two.toml --workloads server");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--workloads: each study of two has its own workloads"), "{}", ran.err);
    assert!(ran.err.contains("`allocanary study one`"), "{}", ran.err);
}

#[test]
fn full_sizes_that_do_not_fit_are_named_and_not_run() {
    let folder = folder();
    let ran = run(folder.path(), "study --plan two.toml --full");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--full: one has no `[[full]]` table"), "{}", ran.err);
    let two = fs::read_to_string(folder.path().join("two.toml")).unwrap();
    let huge = "[[study.full]]\nmemory = '4000GiB'\n[[study]]\nname = 'small'";
    fs::write(folder.path().join("full.toml"), two.replacen("[[study]]\nname = 'small'", huge, 1)).unwrap();
    let ran = run(folder.path(), "study --plan full.toml --full");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("one: not run: ") && ran.err.contains(" needs 3.91 TiB of memory, and "), "{}", ran.err);
    assert_eq!(ran.out.matches(", repeat ").count(), 4, "the other is planned as its full table says: {}", ran.out);
}

#[test]
fn every_full_size_that_fits_is_run_and_shown_in_one_section() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("sizes.toml"), SIZES).unwrap();
    let ran = run(folder.path(), "study sizes.toml --full --out-dir out");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("small: not run: small:live=512,operations=1000 needs 3.91 TiB of memory"), "{}", ran.err);
    let rows = samples(&folder.path().join("out"));
    let of = |live: &str, threads: u32| {
        rows.iter().filter(|row| row.cell.job.name().contains(live) && row.cell.job.threads() == Some(threads)).count()
    };
    assert_eq!((rows.len(), of("live=128", 1), of("live=128", 2), of("live=64", 1)), (4, 1, 1, 2));
    for text in
        ["small: Which size?", "Published", "live=128, operations=1000, 2 threads", "live=64, operations=1000, 1 thr"]
    {
        assert_eq!(ran.out.matches(text).count(), 1, "{text}: {}", ran.out);
    }

    // The folder alone determines the remaining cells and the questions of the studies.
    let path = folder.path().join("out/samples.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> =
        text.lines().filter(|line| !line.contains("live=64") && !line.contains("threads\":2")).collect();
    assert_eq!(kept.len(), 1);
    fs::write(&path, kept.join("\n") + "\n").unwrap();
    let resumed = run(folder.path(), "study --resume --out-dir out");
    assert_eq!((resumed.code, samples(&folder.path().join("out")).len()), (Some(0), 4), "{resumed:?}");
    assert_eq!(resumed.out.matches("Somebody, 1999").count(), 1, "{}", resumed.out);

    // If two sizes had a common cell, the size of its row would not be known.
    fs::write(folder.path().join("same.toml"), SIZES.replace("live=128", "live=64")).unwrap();
    let ran = run(folder.path(), "study --plan same.toml --full");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("small: two of its sizes have the cell system, small:live=64,"), "{}", ran.err);
    let ran = run(folder.path(), "study --plan sizes.toml --full --workloads server");
    assert!(ran.code == Some(2) && ran.err.contains("without --full"), "{ran:?}");
}

#[test]
fn a_metric_that_does_not_exist_is_refused_before_anything_runs() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("x.toml"), "candidates = ['system']\nmetrics = ['peak']").unwrap();
    let ran = run(folder.path(), "study x.toml");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("metrics: no metric `peak`; perhaps peak_resident"), "{}", ran.err);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_shipped_cases_can_be_planned_at_either_size() {
    let folder = tempdir().unwrap();
    let ran = run(folder.path(), "study --plan cases --repeats 1");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    for case in ["churn", "list", "sort", "blob", "storm", "reserve"] {
        assert!(ran.out.contains(&format!("{case}: ")), "{case}: {}", ran.out);
        let alone = run(folder.path(), &format!("study --plan {case} --repeats 1"));
        assert_eq!(alone.code, Some(0), "{alone:?}");
    }
    let full = run(folder.path(), "study --plan cases --full");
    assert_eq!(full.code, Some(0), "{full:?}");
    for size in ["blobs=20,size=10000000", "records=20000000"] {
        assert!(full.out.contains(size), "{size}: {}", full.out);
    }
}
