//! What a report may believe of its rows: each row counts once, only comparable rows are compared, enough of them, and
//! measured on an idle machine.

use allocanary_measure::summary::{Judged, Verdict};
use allocanary_rows::Cell;
use allocanary_rows::Moment;
use allocanary_rows::job::Job;
use allocanary_rows::load::Load;
use allocanary_rows::sample::Measured;

use super::*;

/// The same rows, repeated.
fn repeated(rows: &[Sample], times: usize) -> Vec<Sample> {
    vec![rows; times].concat()
}

/// Both, one after the other.
fn together(one: &[Sample], other: &[Sample]) -> Vec<Sample> {
    [one, other].concat()
}

#[test]
fn a_row_that_is_read_twice_counts_once_and_a_second_run_counts() {
    let (old, later) = pair(|row| {
        row.started_ms += 86_400_000;
        true
    });
    let once = report(&old, "table");
    for times in [2, 5] {
        let again = report(&repeated(&old, times), "table");
        let note = format!("{} rows were read again and count once\n", (times - 1) * old.len());
        assert!(again.contains(&note), "{again}");
        assert_eq!(again.replace(&note, ""), once);
    }
    let twice = report(&together(&old, &later), "table");
    assert!(twice.contains(&format!("{} rows; ", 2 * old.len())) && twice.contains("n=10"), "{twice}");

    // Repeating the same rows gives a gate no verdict.
    let few = repeated(&changed(|row| row.cell.repeat < 3), 5);
    let found = judged(&few, &few, &[], &[("resident", 0.05)]).unwrap();
    assert!(found.judged(Judged::Undecided).count() > 0 && !found.passes(false));
}

#[test]
fn unlike_hosts_are_never_one_figure() {
    let (old, other) = pair(|row| {
        row.provenance.host.thp = "always".into();
        row.provenance.host.name = "other".into();
        true
    });
    let both = together(&old, &other);
    let csv = report(&both, "csv");
    for thp in ["madvise", "always"] {
        let line = format!("\"server, on hosts with THP {thp}\",system,glibc 2.36,threads,1,resident,bytes,5,");
        assert!(csv.contains(&line), "{csv}");
    }
    let refused = side("both.jsonl", &both, &Metrics::default()).err().unwrap().to_string();
    assert!(refused.contains("both.jsonl: the rows of ") && refused.contains("THP always; THP madvise"), "{refused}");
    let found = judged(&old, &other, &[], &[]).unwrap().differs;
    for said in ["THP: madvise in the old, always in the new", "host: golden in the old, other in the new"] {
        assert!(found.iter().any(|line| line == said), "{said}: {found:?}");
    }
    assert!(judged(&old, &old, &[], &[]).unwrap().differs.is_empty(), "nothing differs from itself");
}

#[test]
fn unlike_versions_are_never_one_figure_and_the_same_machine_again_is_pooled() {
    let (old, other) = pair(|row| {
        row.started_ms += 1;
        if let Some(answer) = row.measured.as_mut().filter(|answer| answer.version == "5.3.1") {
            answer.version = "5.3.0".into();
        }
        true
    });
    let csv = report(&together(&old, &other), "csv");
    for line in [
        "server,jemalloc (5.3.0),5.3.0,threads,1,resident,bytes,5,",
        "server,jemalloc (5.3.1),5.3.1,threads,1,resident,bytes,5,",
        "server,system,glibc 2.36,threads,1,resident,bytes,10,",
    ] {
        assert!(csv.contains(line), "{line}: {csv}");
    }
    let found = judged(&old, &other, &[], &[]).unwrap().differs;
    assert!(found.contains(&"jemalloc: version 5.3.1 in the old, 5.3.0 in the new".to_string()), "{found:?}");
}

#[test]
fn a_cell_that_failed_before_it_said_its_version_is_one_with_the_others() {
    let fail = |row: &mut Sample| (row.measured, row.error) = (None, Some(killed()));
    let one = changed(|row| {
        if row.cell.candidate == "jemalloc".into() && row.cell.repeat == 0 {
            fail(row);
        }
        true
    });
    let csv = report(&one, "csv");
    let line = csv.lines().find(|line| line.starts_with("server,jemalloc,5.3.1,threads,1,resident,bytes,4,"));
    assert!(line.unwrap_or_else(|| panic!("{csv}")).ends_with(",1,"), "one failed: {csv}");

    // The same if it fails at one number of threads and runs at another.
    let all_of_a_column = changed(|row| {
        if row.cell.candidate == "jemalloc".into() && row.cell.job.threads() == Some(1) {
            fail(row);
        }
        true
    });
    let out = report(&all_of_a_column, "table");
    assert!(!out.contains("unknown") && !out.contains("(5.3.1)") && out.contains("5 failed"), "{out}");
}

/// Rows of two versions of jemalloc, each measured by a different build of the command.
fn two_versions(crashed_in: &str) -> Vec<Sample> {
    let of = |version: &str, build: &str, later: u64| {
        changed(|row| {
            row.started_ms += later;
            row.provenance.build.id = build.into();
            if let Some(answer) = row.measured.as_mut().filter(|answer| answer.version == "5.3.1") {
                answer.version = version.into();
            }
            row.cell.candidate != "jemalloc:narenas=1".into()
        })
    };
    let mut rows = together(&of("5.3.0", "build-a", 0), &of("5.3.1", "build-b", 1));
    let crash = |row: &Sample| {
        let started_ms = row.started_ms + 5;
        let mut row = Sample { measured: None, error: Some(killed()), started_ms, ..row.clone() };
        row.provenance.build.id = crashed_in.into();
        row
    };
    let ran = |row: &&Sample| row.cell.candidate == "jemalloc".into() && row.provenance.build.id == "build-b";
    let crashed: Vec<Sample> = rows.iter().filter(ran).map(crash).collect();
    rows.extend(crashed);
    rows
}

#[test]
fn a_crash_counts_for_the_version_that_its_build_of_the_command_measured() {
    let failed = |rows: &[Sample], version: &str| -> Vec<String> {
        let csv = report(rows, "csv");
        let name = format!("server,jemalloc ({version}),{version},threads,1,resident,");
        let lines = csv.lines().filter(|line| line.starts_with(&name));
        lines.map(|line| line.rsplit(',').nth(1).unwrap().to_string()).collect()
    };
    let rows = two_versions("build-b");
    assert_eq!((failed(&rows, "5.3.0"), failed(&rows, "5.3.1")), (vec!["0".into()], vec!["5".to_string()]));
    assert!(!report(&rows, "table").contains("unknown"));
    // That build measured neither version, so the version of the crashed rows is unknown.
    let mut rows = two_versions("build-c");
    assert_eq!((failed(&rows, "5.3.0"), failed(&rows, "5.3.1")), (vec!["0".into()], vec!["0".to_string()]));
    assert!(report(&rows, "table").contains("jemalloc (unknown)"));
    // Once all crashed rows were repeated with success, no trace of them is left.
    let retry = |row: &Sample| {
        let same = rows.iter().find(|other| other.error.is_none() && other.cell == row.cell).unwrap();
        Sample { replaces: Some(row.started_ms), started_ms: row.started_ms + 1000, ..same.clone() }
    };
    let crashed = rows.iter().filter(|row| row.provenance.build.id == "build-c");
    let retries: Vec<Sample> = crashed.map(retry).collect();
    assert!(!retries.is_empty());
    rows.extend(retries);
    let table = report(&rows, "table");
    assert!(!table.contains("unknown"), "{table}");
}

#[test]
fn versions_in_one_side_are_not_compared_and_builds_of_one_version_are_pooled_and_named() {
    let refused = side("both.jsonl", &two_versions("build-b"), &Metrics::default()).err().unwrap().to_string();
    let said = "both.jsonl: the rows of jemalloc, server, 1 threads are of two kinds: version 5.3.0; version 5.3.1.";
    assert!(refused.contains(said), "{refused}");

    let (old, other) = pair(|row| {
        row.started_ms += 1;
        row.provenance.build.id = "fedcba9876543210".into();
        true
    });
    let said = "rows of 2 builds of allocanary are pooled: 0123456789abcdef, fedcba9876543210";
    let pooled = report(&together(&old, &other), "table");
    assert!(unbroken(&pooled).contains(said), "{pooled}");
    assert!(!report(&old, "table").contains("are pooled"));
}

#[test]
fn kernels_are_apart_and_each_difference_of_two_sides_is_named() {
    let (old, other) = pair(|row| {
        row.started_ms += 1;
        row.provenance.host.kernel = "6.12.1".into();
        row.provenance.build.revision = "abcdef012345".into();
        row.provenance.build.profile = "debug".into();
        true
    });
    let csv = report(&together(&old, &other), "csv");
    for kernel in ["6.1.0", "6.12.1"] {
        let line = format!("\"server, on hosts with Linux {kernel}\",system,glibc 2.36,threads,1,resident,bytes,5,");
        assert!(csv.contains(&line), "{csv}");
    }
    let found = judged(&old, &other, &[], &[]).unwrap().differs;
    for said in [
        "kernel: 6.1.0 in the old, 6.12.1 in the new",
        "revision: 0123456789ab in the old, abcdef012345 in the new",
        "profile: release in the old, debug in the new",
    ] {
        assert!(found.iter().any(|line| line == said), "{said}: {found:?}");
    }
}

#[test]
fn hosts_with_different_cores_are_never_mixed() {
    let (small, large) = pair(|row| {
        row.provenance.host.cores = 64;
        row.provenance.host.name = "large".into();
        for value in row.measured.iter_mut().flat_map(|answer| answer.readings.get_mut("resident_bytes")).flatten() {
            *value = value.map(|bytes| bytes + (500 << 20));
        }
        true
    });
    let own = small[0].provenance.host.cores;
    let medians = |rows: &[Sample], title: &str| -> Vec<f64> {
        let csv = report(rows, "csv");
        let lines = csv.lines().filter(|line| line.starts_with(title) && line.contains(",resident,bytes,"));
        lines.map(|line| line.split(",bytes,").nth(1).unwrap().split(',').nth(1).unwrap().parse().unwrap()).collect()
    };
    let alone = medians(&small, "server,");
    assert!(!alone.is_empty());
    let both = together(&small, &large);
    assert_eq!(medians(&both, &format!("\"server, on hosts with {own} cores\"")), alone);
    let moved: Vec<f64> = alone.iter().map(|median| median + f64::from(500 << 20)).collect();
    assert_eq!(medians(&both, "\"server, on hosts with 64 cores\""), moved);
}

#[test]
fn below_five_samples_there_is_no_interval_and_no_star() {
    let (old, few) = pair(|row| row.cell.repeat < 4);
    let all = report(&old, "table");
    assert!(all.contains("*6.03") && all.contains("[6.01–6.09]") && all.contains("n=5"), "{all}");
    let table = report(&few, "table");
    let figures = table.lines().take_while(|line| !line.starts_with("median, ")).collect::<String>();
    assert!(!figures.contains(['*', '[']) && table.contains("n=4"), "{table}");
    assert!(table.contains("n 4 is too few to be sure") && table.contains("ndecided: "), "{table}");
    assert!(!table.contains("eep "), "{table}");
    for verdict in ["better", "worse", "equal"] {
        assert!(!table.contains(verdict), "{verdict}: {table}");
    }
    let markdown = report(&few, "markdown");
    assert!(!markdown.contains("**") && markdown.contains("n=4."), "{markdown}");
    let page = report(&few, "html");
    assert!(!page.contains("class=\"best\"") && page.contains("<small>n=4</small>"), "{page}");
    let csv = report(&few, "csv");
    // The parts of the memory are from one process.
    let is_part = |line: &str| [",part", ",never_touched"].iter().any(|name| line.contains(name));
    let all_or_one = |line: &str| line.contains(",4,") || is_part(line) && line.contains(",bytes,1,");
    assert!(csv.lines().skip(1).all(|line| all_or_one(line) && line.contains(",,,")), "{csv}");
}

#[test]
fn a_study_that_was_cut_short_says_so_beside_its_verdicts() {
    let (whole, cut) = {
        let planned = changed(|_| true).len() as u32;
        pair(|row| {
            row.planned = Some(planned);
            row.cell.repeat < 3
        })
    };
    let said = format!("The study is not finished: {} of {} planned processes have rows.", cut.len(), whole.len());
    let found = |rows: &[Sample], format: &str| unbroken(&report(rows, format)).matches(&said).count();
    assert_eq!(found(&cut, "table"), 2, "below the tables and in the answer: {}", report(&cut, "table"));
    assert_eq!((found(&cut, "markdown"), found(&cut, "html")), (1, 1));
    assert_eq!(found(&whole, "table"), 0);
    let notes = judged(&cut, &cut, &[], &[]).unwrap().notes;
    assert!(notes.iter().all(|notes| notes.iter().any(|note| note.starts_with("not finished: "))), "{notes:?}");
}

/// Rows of a machine with many other tasks. The second side has `times` as much memory.
fn loaded(times: f64) -> (Vec<Sample>, Vec<Sample>) {
    pair(|row| {
        row.wall_us = 100_000;
        row.load = Some(Load { runnable: 30, average: 30.5, cpus: 2, stolen_ms: 200, throttled_us: 40_000 });
        for value in row.measured.iter_mut().flat_map(|answer| answer.readings.get_mut("resident_bytes")).flatten() {
            *value = value.map(|bytes| (bytes as f64 * times) as u64);
        }
        true
    })
}

#[test]
fn a_busy_machine_is_told_with_its_figures_and_small_differences_are_not_judged() {
    // The change is certainly more than the gate, but not more than what is judged on a busy machine.
    let (old, new) = loaded(1.035);
    let found = judged(&old, &new, &["resident"], &[("resident", 0.01)]).unwrap();
    let said = "the machine was too busy to judge small differences: 30 other tasks competed for 2 CPUs while this was measured \
                (median of 36 rows; load average up to 30.5)";
    assert!(found.notes[0].is_empty() && found.notes[1].iter().any(|note| note == said), "{:?}", found.notes);
    let verdicts = || found.compared.iter().map(|one| one.comparison.verdict);
    assert!(verdicts().any(|verdict| verdict == Verdict::Undecided), "{}", compared(&found));
    assert!(!verdicts().any(|verdict| verdict == Verdict::Worse), "{}", compared(&found));
    let (gate, one) = found.judged(Judged::Undecided).next().unwrap();
    let more = gate.more(&one.comparison);
    assert!(more.contains("too busy to judge that: measure again when it is idle") && !found.passes(false), "{more}");
    assert!(compared(&found).contains("equal within 1 %, n=5\n"), "{}", compared(&found));
    let table = unbroken(&report(&new, "table"));
    for said in [
        "the machine was too busy to judge small differences: 30 other tasks competed for 2 CPUs while this was measured",
        "the hypervisor took 25 % of the processors' time (steal)",
        "the CPU quota was used up for 1.44 s of 3.60 s",
    ] {
        assert!(table.contains(said), "wanted {said} in {table}");
    }
    let (old, new) = loaded(3.0);
    let large = judged(&old, &new, &["resident"], &[("resident", 0.05)]).unwrap();
    assert!(large.judged(Judged::Broken).count() > 0 && !large.passes(true), "{}", compared(&large));
}

#[test]
fn a_report_ends_with_its_answer_and_cost_on_the_last_screen() {
    let rows = changed(|row| {
        // The candidate with the least memory has slowest operations that take three times as long as the first
        // candidate's.
        let winner = row.cell.candidate == "jemalloc:narenas=1".into();
        if let Some(latency) = row.measured.as_mut().and_then(|answer| answer.latency.as_mut()).filter(|_| winner) {
            latency.p99_ns *= 3;
        }
        row.cell.cores.is_none()
    });
    let out = report(&rows, "table");
    let lines: Vec<&str> = out.lines().collect();
    let answer = lines.iter().position(|line| *line == "Answer").unwrap_or_else(|| panic!("{out}"));
    // Two more lines name the files, and one line is the prompt.
    assert!(
        lines.len() - answer <= 21
            && lines.iter().all(|line| line.chars().count() <= 120 || line.starts_with("failed: ")),
        "{out}"
    );
    let end = lines[answer..].join(" ");
    let said = "At 16 threads keep system: no candidate is clearly better in resident and at most 10 % worse in throughput, p99, cpu. Less, \
                at a higher cost: jemalloc:narenas=1, 18.2 MiB (better -40 % [-41, -39] against system): throughput equal, p99 worse 3.0x, \
                cpu equal.";
    assert!(end.contains(said) && end.contains("Linux 6.1.0"), "{end}");

    // With many workloads and hosts, some are only in the tables.
    let of_host = |at: u32| {
        changed(|row| {
            row.cell.job = Job::workload(&format!("server:live={at}MiB"), row.cell.job.threads().unwrap());
            row.provenance.host.name = format!("host-{at}");
            true
        })
    };
    let out = report(&(0..30).flat_map(of_host).collect::<Vec<Sample>>(), "table");
    let lines: Vec<&str> = out.lines().collect();
    let answer = lines.iter().position(|line| *line == "Answer").unwrap();
    let end = lines[answer..].join(" ");
    assert!(lines.len() - answer <= 21, "{end}");
    assert!(end.contains("more: see the tables above.") && end.contains("more builds or hosts: see"), "{end}");
}

/// Memory has verdicts by column. The metrics of the cost have verdicts at the largest column.
#[test]
fn the_cost_has_intervals_and_verdicts() {
    let rows = changed(|_| true);
    let table = report(&rows, "table");
    let cost = table.split("server: time and work at 16 threads").nth(1).unwrap_or_else(|| panic!("{table}"));
    let cost = cost.split("server:live").next().unwrap();
    assert!(cost.contains("n=5, and against") && cost.contains("22.1 k/s [21.7, 22.2]"), "{cost}");
    let head: Vec<&str> = cost.lines().find(|line| line.contains("candidate")).unwrap().split_whitespace().collect();
    assert_eq!(head, ["candidate", "throughput", "p99", "cpu"]);
    // The text below the table contains verdicts too.
    let cells = cost.split("\nUndecided: ").next().unwrap();
    let count = |text: &str| cells.matches(text).count();
    assert_eq!(count("equal") + count("undecided"), 6, "two candidates, three metrics: {cost}");
    assert_eq!(count("["), 1 + 9 + 6, "the title's, three candidates' figures, verdicts: {cost}");
    let markdown = report(&rows, "markdown");
    let title = "The cost at 16 threads, against `system`:\n\n| candidate | throughput | p99 | cpu |";
    assert!(markdown.contains(title), "{markdown}");
    let page = report(&rows, "html");
    assert!(page.contains("The cost at 16 threads, against <code>system</code>"), "{page}");
}

#[test]
fn candidates_that_did_not_alternate_are_named_beside_their_verdicts() {
    let (old, new) = pair(|row| {
        row.started_ms += if row.cell.candidate == "jemalloc".into() { 86_400_000 } else { 0 };
        true
    });
    let said = "system and jemalloc were measured one after the other and not in turns";
    let found = |rows: &[Sample], format: &str| unbroken(&report(rows, format)).matches(said).count();
    assert_eq!(found(&new, "table"), 2, "below the tables and in the answer");
    assert_eq!((found(&new, "markdown"), found(&new, "html")), (1, 1));
    assert_eq!(found(&old, "table"), 0, "they took turns");
    let few: Vec<Sample> = new.into_iter().filter(|row| row.cell.repeat < 4).collect();
    assert_eq!(found(&few, "table"), 0, "there is no verdict");
}

/// One comparison that more repeats would decide, and two so close to the margin that no number of repeats would.
#[test]
fn what_no_number_of_repeats_would_decide_is_counted_and_named() {
    let template = read(&[golden("sample.jsonl")]).unwrap().0.into_iter().find(|row| row.error.is_none()).unwrap();
    let of = |place: u32, repeat: u32, times: f64| {
        let mut row = template.clone();
        row.cell.candidate = format!("c{place}").as_str().into();
        (row.cell.place, row.cell.repeat) = (place, repeat);
        let readings = &mut row.measured.as_mut().unwrap().readings;
        let rss = readings.get_mut("resident_bytes").unwrap().iter_mut().flatten();
        let (more, spread) = (u64::from(repeat) * 4096, 1.0 + 0.05 * f64::from(repeat));
        rss.for_each(|rss| *rss = ((*rss + more) as f64 * spread * times) as u64);
        row
    };
    let all = |times: [f64; 3]| -> Vec<Sample> {
        let each = (0..).zip(times).flat_map(|(place, times)| (0..8).map(move |repeat| (place, repeat, times)));
        each.map(|(place, repeat, times)| of(place, repeat, times)).collect()
    };
    let found = judged(&all([1.0; 3]), &all([1.0199, 1.0199, 1.1]), &["resident"], &[]).unwrap();
    let out = unbroken(&compared(&found));
    assert!(out.contains("3 comparisons: 3 undecided"), "{out}");
    assert!(out.contains(" repeats would decide 1 of 3;"), "{out}");
    let wanted = "no number of repeats would decide 2, whose samples spread too far (resident of c0, server:live=1MiB, 3 threads, 4 cores; \
                  resident of c1, server:live=1MiB, 3 threads, 4 cores)";
    assert!(out.contains(wanted), "{out}");
}

/// The smaller candidate fails in one run of three.
#[test]
fn a_study_does_not_propose_what_crashes() {
    let rows = changed(|row| {
        if row.cell.candidate == "jemalloc:narenas=1".into() && row.cell.repeat % 3 == 2 {
            (row.measured, row.error) = (None, Some(killed()));
        }
        row.cell.candidate != "jemalloc".into() && row.cell.cores.is_none()
    });
    let found = unbroken(&report(&rows, "table"));
    assert!(found.contains("keep system: it has the least resident, "), "{found}");
    assert!(found.contains("left out, because more runs failed than of system: jemalloc:narenas=1"), "{found}");
    assert!(!found.contains("_RJEM_MALLOC_CONF"), "no lines to paste: {found}");
}

/// Repeats 0, 1 and 2 have 40, 41 and 42 MiB for 20 MiB that are live.
#[test]
fn the_figures_are_those_of_the_rows() {
    let template = read(&[golden("sample.jsonl")]).unwrap().0.into_iter().find(|row| row.error.is_none()).unwrap();
    let one = |repeat: u32| {
        let mut row = template.clone();
        row.cell = Cell { repeat, ..Cell::new("fake", "fake", Job::workload("work", 1)) };
        let readings = [("resident_bytes", (40 + u64::from(repeat)) << 20), ("peak_resident_bytes", 50 << 20)];
        row.measured = Some(Measured {
            version: "1.2".into(),
            moments: vec![Moment::Start, Moment::Idle],
            requested_bytes: vec![0, 20 << 20],
            readings: readings.map(|(name, bytes)| (name.to_string(), vec![Some(1 << 20), Some(bytes)])).into(),
            operations: 1000,
            active_ns: 500_000_000,
            ..Measured::default()
        });
        row
    };
    let rows: Vec<Sample> = (0..3).map(one).collect();
    let csv = report(&rows, "csv");
    for line in [
        "\nwork,fake,1.2,threads,1,resident,bytes,3,42991616,,,524288,0,\n",
        "\nwork,fake,1.2,threads,1,resident_per_requested,ratio,3,2.05,,,",
        "\nwork,fake,1.2,threads,1,peak_resident,bytes,3,52428800,,,0,0,\n",
        "\nwork,fake,1.2,threads,1,throughput,1/s,3,2000,,,0,0,\n",
    ] {
        assert!(csv.contains(line), "{line}\n{csv}");
    }
    assert!(!csv.contains(",p99,"), "what the cell did not measure is not there: {csv}");
}
