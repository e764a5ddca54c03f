//! What a report may believe of its rows: each once, like with like, enough of them, and from a machine that was idle.

use std::fs;
use std::path::Path;

use allocanary_cell::job::Job;
use allocanary_cell::load::Load;
use allocanary_cell::sample::{Failure, FailureKind, Sample};
use tempfile::{TempDir, tempdir};

use super::support::{Ran, TINY, allocanary, golden_path, samples, study, words};

fn write(folder: &Path, name: &str, rows: &[Sample]) {
    let lines: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap() + "\n").collect();
    fs::write(folder.join(name), lines.concat()).unwrap();
}

/// The golden rows, changed one by one; those that `change` refuses are left out.
fn changed(change: impl Fn(&mut Sample) -> bool) -> Vec<Sample> {
    let mut rows = samples(&golden_path("rows.jsonl"));
    rows.retain_mut(change);
    rows
}

/// A folder with the golden rows in `old.jsonl`, and the changed ones in `new.jsonl`.
fn pair(change: impl Fn(&mut Sample) -> bool) -> TempDir {
    let folder = tempdir().unwrap();
    write(folder.path(), "old.jsonl", &changed(|_| true));
    write(folder.path(), "new.jsonl", &changed(change));
    folder
}

fn killed() -> Failure {
    Failure { kind: FailureKind::Crashed, text: "killed".into() }
}

fn run(folder: &TempDir, line: &str) -> Ran {
    allocanary(folder.path(), words(line))
}

#[test]
fn a_row_that_is_read_twice_counts_once_and_a_second_run_counts() {
    let folder = pair(|row| {
        row.started_ms += 86_400_000;
        true
    });
    let text = fs::read_to_string(folder.path().join("old.jsonl")).unwrap();
    let rows = text.lines().count();
    fs::create_dir(folder.path().join("study")).unwrap();
    fs::write(folder.path().join("study/samples.jsonl"), &text).unwrap();
    fs::write(folder.path().join("five.jsonl"), text.repeat(5)).unwrap();
    let once = run(&folder, "report old.jsonl").out;
    for (files, again) in [("old.jsonl old.jsonl", rows), ("study study/samples.jsonl", rows), ("five.jsonl", 4 * rows)]
    {
        let ran = run(&folder, &format!("report {files}"));
        let note = format!("{again} rows were read again and count once\n");
        assert!(ran.out.contains(&note), "{files}: {}", ran.out);
        assert_eq!(ran.out.replace(&note, ""), once, "{files}");
    }
    let twice = run(&folder, "report old.jsonl new.jsonl").out;
    assert!(twice.contains(&format!("{} rows; ", 2 * rows)) && twice.contains("n=10"), "{twice}");

    // A gate is not talked into a verdict by repetition.
    let few: Vec<Sample> = changed(|row| row.cell.repeat < 3);
    write(folder.path(), "few.jsonl", &[&few[..], &few, &few, &few, &few].concat());
    let gate = run(&folder, "compare few.jsonl few.jsonl --gate rss=5%");
    assert!(gate.code == Some(1) && gate.err.contains("gate undecided: rss of "), "{gate:?}");
}

#[test]
fn unlike_hosts_and_versions_are_never_one_figure() {
    let always = |row: &mut Sample| {
        row.provenance.host.thp = "always".into();
        row.provenance.host.name = "other".into();
        true
    };
    let folder = pair(always);
    let csv = run(&folder, "report old.jsonl new.jsonl --format csv").out;
    for thp in ["madvise", "always"] {
        assert!(
            csv.contains(&format!("\"server, on hosts with THP {thp}\",system,glibc 2.36,threads,1,rss,bytes,5,")),
            "{csv}"
        );
    }
    let mixed = fs::read(folder.path().join("old.jsonl")).unwrap();
    fs::write(folder.path().join("both.jsonl"), [mixed, fs::read(folder.path().join("new.jsonl")).unwrap()].concat())
        .unwrap();
    let refused = run(&folder, "compare both.jsonl old.jsonl");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.err.contains("both.jsonl: the rows of ") && refused.err.contains("THP always; THP madvise"),
        "{}",
        refused.err
    );
    let named = run(&folder, "compare old.jsonl new.jsonl").out;
    assert!(named.contains("differs: THP: madvise in the old, always in the new\n"), "{named}");
    assert!(named.contains("differs: host: golden in the old, other in the new\n"), "{named}");
    assert!(!run(&folder, "compare old.jsonl old.jsonl").out.contains("differs"), "nothing differs from itself");

    let folder = pair(|row| {
        row.started_ms += 1;
        if let Some(answer) = row.answer.as_mut().filter(|answer| answer.version == "5.3.1") {
            answer.version = "5.3.0".into();
        }
        true
    });
    let csv = run(&folder, "report old.jsonl new.jsonl --format csv").out;
    assert!(csv.contains("server,jemalloc (5.3.0),5.3.0,threads,1,rss,bytes,5,"), "{csv}");
    assert!(csv.contains("server,jemalloc (5.3.1),5.3.1,threads,1,rss,bytes,5,"), "{csv}");
    assert!(
        csv.contains("server,system,glibc 2.36,threads,1,rss,bytes,10,"),
        "the same machine again is pooled: {csv}"
    );
    let named = run(&folder, "compare old.jsonl new.jsonl").out;
    assert!(named.contains("differs: jemalloc: version 5.3.1 in the old, 5.3.0 in the new\n"), "{named}");
}

#[test]
fn a_cell_that_failed_before_it_said_its_version_is_one_with_the_others() {
    let folder = pair(|row| {
        if row.cell.candidate == "jemalloc".into() && row.cell.repeat == 0 {
            row.answer = None;
            row.error = Some(killed());
        }
        true
    });
    let csv = run(&folder, "report new.jsonl --format csv").out;
    let line = csv
        .lines()
        .find(|line| line.starts_with("server,jemalloc,5.3.1,threads,1,rss,bytes,4,"))
        .unwrap_or_else(|| panic!("{csv}"));
    assert!(line.ends_with(",1,"), "one failed: {line}");

    // And so it is where it fails at one number of threads and runs at another.
    let folder = pair(|row| {
        if row.cell.candidate == "jemalloc".into() && row.cell.job.threads() == Some(1) {
            row.answer = None;
            row.error = Some(killed());
        }
        true
    });
    let out = run(&folder, "report new.jsonl").out;
    assert!(!out.contains("unknown") && !out.contains("(5.3.1)") && out.contains("5 failed"), "{out}");
}

/// Writes both versions of jemalloc to one file, each measured by a build of the command.
fn two_versions(folder: &TempDir, crashed_in: &str) {
    let of = |version: &str, build: &str, later: u64| {
        changed(|row| {
            row.started_ms += later;
            row.provenance.build.id = build.into();
            if let Some(answer) = row.answer.as_mut().filter(|answer| answer.version == "5.3.1") {
                answer.version = version.into();
            }
            row.cell.candidate != "jemalloc:narenas=1".into()
        })
    };
    let mut rows = [of("5.3.0", "build-a", 0), of("5.3.1", "build-b", 1)].concat();
    let crash =
        |row: &Sample| Sample { answer: None, error: Some(killed()), started_ms: row.started_ms + 5, ..row.clone() };
    let ran = |row: &&Sample| row.cell.candidate == "jemalloc".into() && row.provenance.build.id == "build-b";
    let crashed = rows.iter().filter(ran).map(crash).map(|mut row| {
        row.provenance.build.id = crashed_in.into();
        row
    });
    let crashed: Vec<Sample> = crashed.collect();
    rows.extend(crashed);
    write(folder.path(), "both.jsonl", &rows);
}

#[test]
fn a_crash_counts_for_the_version_that_its_build_of_the_command_measured() {
    let folder = tempdir().unwrap();
    let failed = |version: &str| -> Vec<String> {
        let csv = run(&folder, "report both.jsonl --format csv").out;
        let name = format!("server,jemalloc ({version}),{version},threads,1,rss,");
        let lines = csv.lines().filter(|line| line.starts_with(&name));
        lines.map(|line| line.rsplit(',').nth(1).unwrap().to_string()).collect()
    };
    two_versions(&folder, "build-b");
    assert_eq!((failed("5.3.0"), failed("5.3.1")), (vec!["0".into()], vec!["5".to_string()]));
    assert!(!run(&folder, "report both.jsonl").out.contains("unknown"));
    // Neither version was measured by that build, so that nobody can tell which one it was.
    two_versions(&folder, "build-c");
    assert_eq!((failed("5.3.0"), failed("5.3.1")), (vec!["0".into()], vec!["0".to_string()]));
    assert!(run(&folder, "report both.jsonl").out.contains("jemalloc (unknown)"));
    // Once all of them were tried again with success, nothing is left of them.
    let mut rows = samples(&folder.path().join("both.jsonl"));
    let retry = |row: &Sample| {
        let same = rows.iter().find(|other| other.error.is_none() && other.cell == row.cell).unwrap();
        Sample { replaces: Some(row.started_ms), started_ms: row.started_ms + 1000, ..same.clone() }
    };
    let crashed = rows.iter().filter(|row| row.provenance.build.id == "build-c");
    let retries: Vec<Sample> = crashed.map(retry).collect();
    let before = rows.len();
    rows.extend(retries);
    assert!(rows.len() > before);
    write(folder.path(), "both.jsonl", &rows);
    let report = run(&folder, "report both.jsonl").out;
    assert!(!report.contains("unknown"), "{report}");
}

#[test]
fn versions_in_one_side_are_not_compared_and_builds_of_one_version_are_pooled_and_named() {
    let folder = tempdir().unwrap();
    two_versions(&folder, "build-b");
    let refused = run(&folder, "compare both.jsonl both.jsonl");
    let said = "both.jsonl: the rows of jemalloc, server, 1 threads are of two kinds: version 5.3.0; version 5.3.1.";
    assert!(refused.code == Some(2) && refused.err.contains(said), "{refused:?}");

    let folder = pair(|row| {
        row.started_ms += 1;
        row.provenance.build.id = "fedcba9876543210".into();
        true
    });
    let said = "rows of 2 builds of allocanary are pooled: 0123456789abcdef, fedcba9876543210";
    let pooled = run(&folder, "report old.jsonl new.jsonl").out;
    assert!(pooled.split_whitespace().collect::<Vec<_>>().join(" ").contains(said), "{pooled}");
    assert!(!run(&folder, "report old.jsonl").out.contains("are pooled"));
}

#[test]
fn kernels_are_apart_and_each_difference_of_two_sides_is_named() {
    let folder = pair(|row| {
        row.started_ms += 1;
        row.provenance.host.kernel = "6.12.1".into();
        row.provenance.build.revision = "abcdef012345".into();
        row.provenance.build.profile = "debug".into();
        true
    });
    let csv = run(&folder, "report old.jsonl new.jsonl --format csv").out;
    for kernel in ["6.1.0", "6.12.1"] {
        let line = format!("\"server, on hosts with Linux {kernel}\",system,glibc 2.36,threads,1,rss,bytes,5,");
        assert!(csv.contains(&line), "{csv}");
    }
    let named = run(&folder, "compare old.jsonl new.jsonl").out;
    for said in [
        "kernel: 6.1.0 in the old, 6.12.1 in the new",
        "revision: 0123456789ab in the old, abcdef012345 in the new",
        "profile: release in the old, debug in the new",
    ] {
        assert!(named.contains(&format!("differs: {said}\n")), "{named}");
    }
}

#[test]
fn below_five_samples_there_is_no_interval_and_no_star() {
    let folder = pair(|row| row.cell.repeat < 4);
    let all = run(&folder, "report old.jsonl").out;
    assert!(all.contains("*6.03") && all.contains("[6.01–6.09]") && all.contains("n=5"), "{all}");
    let few = run(&folder, "report new.jsonl").out;
    let figures = few.lines().take_while(|line| !line.starts_with("median, ")).collect::<String>();
    assert!(!figures.contains(['*', '[']) && few.contains("n=4"), "{few}");
    assert!(few.contains("n 4 is too few to be sure"), "{few}");
    for verdict in ["better", "worse", "equal"] {
        assert!(!few.contains(verdict), "{verdict}: {few}");
    }
    let markdown = run(&folder, "report new.jsonl --format markdown").out;
    assert!(!markdown.contains("**") && markdown.contains("n=4."), "{markdown}");
    let page = run(&folder, "report new.jsonl --format html").out;
    assert!(!page.contains("class=\"best\"") && page.contains("<small>n=4</small>"), "{page}");
    let csv = run(&folder, "report new.jsonl --format csv").out;
    // The parts of the memory are those of one process.
    let all_or_one = |line: &str| line.contains(",4,") || line.contains(",anatomy_") && line.contains(",bytes,1,");
    assert!(csv.lines().skip(1).all(|line| all_or_one(line) && line.contains(",,,")), "{csv}");
}

#[test]
fn a_study_that_was_cut_short_says_so_beside_its_verdicts() {
    let folder = tempdir().unwrap();
    let flags = format!("--candidates system jemalloc --repeats 6 --workloads {TINY}");
    let ran = study(folder.path(), &format!("{flags} --budget 1ms"));
    let rows = samples(&folder.path().join("out"));
    assert!(rows.len() < 12 && rows.iter().all(|row| row.planned == Some(12)), "{rows:?}");
    let said = format!("The study is not finished: {} of 12 planned cells have rows.", rows.len());
    let found = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").matches(&said).count();
    assert_eq!(found(&ran.out), 2, "below the tables and in the answer: {}", ran.out);
    assert!(found(&run(&folder, "report out --format markdown").out) == 1);
    assert!(found(&fs::read_to_string(folder.path().join("out/report.html")).unwrap()) == 1);
    let compared = run(&folder, "compare out out").out;
    assert!(compared.contains("old: not finished: ") && compared.contains("new: not finished: "), "{compared}");
    let whole = allocanary(folder.path(), words("study --resume --out out --threads 1 --budget 1h"));
    assert_eq!((whole.code, found(&whole.out)), (Some(0), 0), "{whole:?}");
    assert!(!whole.out.contains("not finished"), "{}", whole.out);
}

#[test]
fn a_busy_machine_is_told_with_its_figures_and_small_differences_are_not_judged() {
    let loaded = |times: f64| {
        move |row: &mut Sample| {
            row.wall_us = 100_000;
            row.load = Some(Load { runnable: 30, average: 30.5, cpus: 2, stolen_ms: 200, throttled_us: 40_000 });
            for value in row.answer.iter_mut().flat_map(|answer| answer.readings.get_mut("rss_bytes")).flatten() {
                *value = value.map(|bytes| (bytes as f64 * times) as u64);
            }
            true
        }
    };
    // Surely more than the gate, and not surely more than what is judged on any machine.
    let folder = pair(loaded(1.035));
    let ran = run(&folder, "compare old.jsonl new.jsonl --metrics rss --gate rss=1%");
    let said = "new: the machine was too busy to judge small differences: 30 other tasks wanted to run on 2 CPUs next to the \
                cells (median of 36 rows; load average up to 30.5)\n";
    assert!(ran.out.contains(said) && !ran.out.contains("old: "), "{}", ran.out);
    assert!(ran.out.contains(" undecided") && !ran.out.contains("worse"), "{}", ran.out);
    assert!(
        ran.err.contains("too busy to judge that: measure again when it is idle") && ran.code == Some(1),
        "{ran:?}"
    );
    assert!(ran.out.contains("equal within 1 %, n=5\n"), "{}", ran.out);
    let report = run(&folder, "report new.jsonl").out;
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "the machine was too busy to judge small differences: 30 other tasks wanted to run on 2 CPUs next to the cells",
        "the hypervisor took 25 % of the processors' time (steal)",
        "the CPU quota was used up for 1.44 s of 3.60 s",
    ] {
        assert!(report.contains(said), "wanted {said} in {report}");
    }
    let large = run(&pair(loaded(3.0)), "compare old.jsonl new.jsonl --metrics rss --gate rss=5%");
    assert!(large.code == Some(1) && large.err.contains("gate broken: rss of "), "{large:?}");
}

#[test]
fn the_machines_other_work_stands_in_every_row() {
    let folder = tempdir().unwrap();
    let ran = study(folder.path(), &format!("--candidates system --repeats 2 --workloads {TINY}"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    assert!(rows.iter().all(|row| row.load.is_some_and(|load| load.cpus > 0 && load.average >= 0.0)), "{rows:?}");
}

#[test]
fn a_report_ends_with_its_answer_and_price_on_the_last_screen() {
    let folder = pair(|row| {
        // The winner in memory has three times the first candidate's slowest operations.
        let winner = row.cell.candidate == "jemalloc:narenas=1".into();
        if let Some(latency) = row.answer.as_mut().and_then(|answer| answer.latency.as_mut()).filter(|_| winner) {
            latency.p99_ns *= 3;
        }
        row.cell.cores.is_none()
    });
    let out = run(&folder, "report new.jsonl").out;
    let lines: Vec<&str> = out.lines().collect();
    let answer = lines.iter().position(|line| *line == "Answer").unwrap_or_else(|| panic!("{out}"));
    // Two lines more name the files, and one is the prompt's.
    assert!(
        lines.len() - answer <= 21
            && lines.iter().all(|line| line.chars().count() <= 80 || line.starts_with("failed: ")),
        "{out}"
    );
    let end = lines[answer..].join(" ");
    let said = "At 16 threads take jemalloc:narenas=1: it has the least rss, 18.2 MiB (better -40 % against system); its price: \
                throughput equal, p99 worse 3.0x, cpu equal.";
    assert!(end.contains(said) && end.contains("Linux 6.1.0"), "{end}");

    // Of many workloads and hosts some stand in the tables only.
    let mut many = Vec::new();
    for at in 0..30 {
        many.extend(changed(|row| {
            row.cell.job = Job::workload(&format!("server:live={at}MiB"), row.cell.job.threads().unwrap());
            row.provenance.host.name = format!("host-{at}");
            true
        }));
    }
    write(folder.path(), "many.jsonl", &many);
    let out = run(&folder, "report many.jsonl").out;
    let lines: Vec<&str> = out.lines().collect();
    let answer = lines.iter().position(|line| *line == "Answer").unwrap();
    let end = lines[answer..].join(" ");
    assert!(lines.len() - answer <= 21, "{end}");
    assert!(end.contains("more: see the tables above.") && end.contains("more builds or hosts: see"), "{end}");
}

/// Memory has had verdicts by columns; what it may be paid with has them at the largest.
#[test]
fn the_price_has_intervals_and_verdicts() {
    let folder = pair(|_| true);
    let table = run(&folder, "report old.jsonl").out;
    let price = table.split("server: time and work at 16 threads").nth(1).unwrap_or_else(|| panic!("{table}"));
    let price = price.split("server:live").next().unwrap();
    assert!(price.contains("n=5, and against") && price.contains("22.1 k/s [21.7, 22.2]"), "{price}");
    let head: Vec<&str> = price.lines().find(|line| line.contains("candidate")).unwrap().split_whitespace().collect();
    assert_eq!(head, ["candidate", "throughput", "p99", "cpu"]);
    // What stands below the table names verdicts too.
    let cells = price.split("\nUndecided: ").next().unwrap();
    let count = |text: &str| cells.matches(text).count();
    assert_eq!(count("equal") + count("undecided"), 6, "two candidates, three metrics: {price}");
    assert_eq!(count("["), 1 + 9 + 6, "the title's, three candidates' figures, verdicts: {price}");
    let markdown = run(&folder, "report old.jsonl --format markdown").out;
    assert!(
        markdown.contains("The price at 16 threads, against `system`:\n\n| candidate | throughput | p99 | cpu |"),
        "{markdown}"
    );
    let page = run(&folder, "report old.jsonl --format html").out;
    assert!(page.contains("The price at 16 threads, against <code>system</code>"), "{page}");
}

#[test]
fn candidates_that_did_not_alternate_are_named_beside_their_verdicts() {
    let folder = pair(|row| {
        row.started_ms += if row.cell.candidate == "jemalloc".into() { 86_400_000 } else { 0 };
        true
    });
    let said = "system and jemalloc were measured one after the other and not in turns";
    let found = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").matches(said).count();
    assert_eq!(found(&run(&folder, "report new.jsonl").out), 2, "below the tables and in the answer");
    assert_eq!(found(&run(&folder, "report new.jsonl --format markdown").out), 1);
    assert_eq!(found(&run(&folder, "report new.jsonl --format html").out), 1);
    assert_eq!(found(&run(&folder, "report old.jsonl").out), 0, "they took turns");
    let few: Vec<Sample> =
        samples(&folder.path().join("new.jsonl")).into_iter().filter(|row| row.cell.repeat < 4).collect();
    write(folder.path(), "few.jsonl", &few);
    assert_eq!(found(&run(&folder, "report few.jsonl").out), 0, "there is no verdict");
}
