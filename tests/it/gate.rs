//! `compare`: when a gate closes. And what a study's flags and surroundings must not change.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use allocanary_cell::sample::{Failure, FailureKind, Sample};
use tempfile::tempdir;

use super::support::{Ran, TINY, allocanary, command, golden_path, samples, study, words};

/// Two files of rows: eight repeats of two candidates, and the same after `change`.
fn pair(folder: &Path, change: impl Fn(&mut Sample) -> bool) {
    let template = samples(&golden_path("sample-v1.jsonl")).into_iter().find(|sample| sample.error.is_none()).unwrap();
    let (mut old, mut new) = (String::new(), String::new());
    for (place, candidate) in ["one", "two"].into_iter().enumerate() {
        for repeat in 0..8 {
            let mut sample = template.clone();
            sample.cell.candidate = candidate.into();
            (sample.cell.place, sample.cell.repeat) = (place as u32, repeat);
            let readings = &mut sample.answer.as_mut().unwrap().readings;
            for reading in readings.values_mut().flatten().flatten() {
                *reading += u64::from(repeat) * 4096;
            }
            old.push_str(&format!("{}\n", serde_json::to_string(&sample).unwrap()));
            if change(&mut sample) {
                new.push_str(&format!("{}\n", serde_json::to_string(&sample).unwrap()));
            }
        }
    }
    fs::write(folder.join("old.jsonl"), old).unwrap();
    fs::write(folder.join("new.jsonl"), new).unwrap();
}

fn gate(change: impl Fn(&mut Sample) -> bool) -> Ran {
    gate_with("--gate rss=5%", change)
}

fn gate_with(flags: &str, change: impl Fn(&mut Sample) -> bool) -> Ran {
    let folder = tempdir().unwrap();
    pair(folder.path(), change);
    allocanary(folder.path(), words("compare old.jsonl new.jsonl").into_iter().chain(words(flags)))
}

/// The first `count` rows of one candidate.
fn rows_of(folder: &Path, count: u32) -> Vec<Sample> {
    pair(folder, |_| true);
    let rows = samples(&folder.join("old.jsonl")).into_iter();
    rows.filter(|sample| !is_two(sample) && sample.cell.repeat < count).collect()
}

fn write(folder: &Path, old: &[Sample], new: &[Sample]) {
    for (name, rows) in [("old.jsonl", old), ("new.jsonl", new)] {
        let lines = rows.iter().map(|row| serde_json::to_string(row).unwrap() + "\n");
        fs::write(folder.join(name), lines.collect::<String>()).unwrap();
    }
}

/// Resident memory of a row times so much.
fn grow(sample: &mut Sample, times: f64) {
    let readings = &mut sample.answer.as_mut().unwrap().readings;
    let grown = readings.get_mut("rss_bytes").unwrap().iter_mut().flatten();
    grown.for_each(|rss| *rss = (*rss as f64 * times) as u64);
}

fn is_two(sample: &Sample) -> bool {
    sample.cell.candidate == "two"
}

#[test]
fn a_gate_is_open_for_what_stayed_and_closed_for_what_grew() {
    assert_eq!(gate(|_| true).code, Some(0));
    let grown = gate(|sample| {
        let readings = &mut sample.answer.as_mut().unwrap().readings;
        readings.get_mut("rss_bytes").unwrap().iter_mut().flatten().for_each(|rss| *rss *= 2);
        true
    });
    assert_eq!(grown.code, Some(1));
    assert!(grown.err.contains("gate broken: rss of one, "), "{}", grown.err);
}

#[test]
fn what_crashes_or_is_gone_does_not_pass_a_gate() {
    let gone = gate(|sample| !is_two(sample));
    assert_eq!(gone.code, Some(1));
    assert!(gone.err.contains("lost: two, ") && gone.err.contains("not in the new rows"), "{}", gone.err);
    let crashed = gate(|sample| {
        if is_two(sample) {
            sample.error = Some(Failure { kind: FailureKind::Crashed, text: "signal 11".into() });
        }
        true
    });
    assert_eq!(crashed.code, Some(1));
    assert!(crashed.err.contains("every cell fails in the new rows"), "{}", crashed.err);
    let fewer = gate(|sample| sample.cell.repeat < 2);
    assert_eq!(fewer.code, Some(1));
    assert!(fewer.err.contains("gate undecided: rss of one, "), "{}", fewer.err);
}

/// With a tie the test was no longer exact, and this was "no difference" in one of five candidates, and the gate passed:
/// five samples against five, eight times the memory.
#[test]
fn a_tie_hides_nothing() {
    let folder = tempdir().unwrap();
    pair(folder.path(), |_| true);
    let mut template = samples(&folder.path().join("old.jsonl"));
    template.retain(|sample| !is_two(sample) && sample.cell.repeat < 5);
    template[1].answer = template[0].answer.clone();
    for (name, times) in [("old.jsonl", 1.0), ("new.jsonl", 8.0)] {
        let mut text = String::new();
        for place in 0..5 {
            for mut sample in template.clone() {
                (sample.cell.candidate, sample.cell.place) = (format!("c{place}"), place);
                grow(&mut sample, if place == 0 { times } else { 1.0 });
                text.push_str(&format!("{}\n", serde_json::to_string(&sample).unwrap()));
            }
        }
        fs::write(folder.path().join(name), text).unwrap();
    }
    let ran = allocanary(folder.path(), words("compare old.jsonl new.jsonl --metrics rss --gate rss=5%"));
    assert!(ran.code == Some(1) && ran.out.contains("worse 8.0x"), "{ran:?}");
    assert!(ran.err.contains("gate broken: rss of c0, "), "{ran:?}");
}

/// Five samples against five are never a difference among eight comparisons, by the correction for their number. The
/// gate asks for this one alone, and its whole interval lies beyond the gate.
#[test]
fn a_gate_is_broken_where_the_whole_interval_lies_beyond_it() {
    let folder = tempdir().unwrap();
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for place in 0..8 {
        for mut sample in rows_of(folder.path(), 5) {
            (sample.cell.candidate, sample.cell.place) = (format!("c{place}"), place);
            old.push(sample.clone());
            grow(&mut sample, if place == 0 { 10.0 } else { 1.0 });
            new.push(sample);
        }
    }
    write(folder.path(), &old, &new);
    let ran = allocanary(folder.path(), words("compare old.jsonl new.jsonl --gate rss=5% --undecided pass"));
    assert!(ran.out.contains("1 undecided") && !ran.out.contains("worse"), "{ran:?}");
    assert!(ran.code == Some(1) && ran.err.contains("gate broken: rss of c0, "), "{ran:?}");
    let better = allocanary(folder.path(), words("compare new.jsonl old.jsonl --gate rss=5%"));
    assert_eq!(better.code, Some(0), "{better:?}");
}

/// One comparison that more repeats decide, and two so close to the margin that no number does.
#[test]
fn what_no_number_of_repeats_would_decide_is_counted_and_named() {
    let folder = tempdir().unwrap();
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for (place, times) in [1.0199, 1.0199, 1.1].into_iter().enumerate() {
        for mut sample in rows_of(folder.path(), 8) {
            (sample.cell.candidate, sample.cell.place) = (format!("c{place}"), place as u32);
            let spread = 1.0 + 0.05 * f64::from(sample.cell.repeat);
            grow(&mut sample, spread);
            old.push(sample.clone());
            grow(&mut sample, times);
            new.push(sample);
        }
    }
    write(folder.path(), &old, &new);
    let ran = allocanary(folder.path(), words("compare old.jsonl new.jsonl --metrics rss"));
    assert!(ran.out.contains("3 comparisons: 3 undecided"), "{ran:?}");
    assert!(ran.out.contains(" repeats would decide 1 of 3;"), "{ran:?}");
    let wanted = "no number of repeats would decide 2, whose samples spread too far (rss of c0, server:live=1MiB, 3 threads, 4 cores; \
                  rss of c1, server:live=1MiB, 3 threads, 4 cores)";
    assert!(ran.out.contains(wanted), "{ran:?}");
}

/// Medians 13 % apart, and samples that spread further than that.
#[test]
fn an_undecided_gate_fails_and_says_how_many_repeats_would_decide() {
    let spread = |sample: &mut Sample| {
        let factors = [0.85, 0.9, 0.98, 1.1, 1.16, 1.3, 1.4, 1.5];
        grow(sample, factors[sample.cell.repeat as usize]);
        true
    };
    let ran = gate(spread);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("gate undecided: rss of one, ") && ran.err.contains("and the gate is 5 %"), "{}", ran.err);
    assert!(ran.err.contains(" repeats would decide") && ran.err.contains("--undecided pass"), "{}", ran.err);
    assert!(ran.out.contains("undecided") && !ran.out.contains("no difference"), "{}", ran.out);
    assert_eq!(gate_with("--gate rss=5% --undecided pass", spread).code, Some(0));
    let worse = |sample: &mut Sample| {
        grow(sample, 2.0);
        true
    };
    assert_eq!(gate_with("--gate rss=5% --undecided pass", worse).code, Some(1), "it lets nothing else through");
    assert_eq!(gate_with("--undecided perhaps", spread).code, Some(2));
}

/// The interval lies within 5 %, or on the better side: what a gate asks is answered.
#[test]
fn a_gate_holds_where_it_got_worse_by_less_or_not_at_all() {
    let by = |times: f64| {
        gate(move |sample| {
            grow(sample, times);
            true
        })
    };
    let slightly = by(1.03);
    assert!(slightly.code == Some(0) && slightly.out.contains("equal"), "{slightly:?}");
    let less = by(0.5);
    assert!(less.code == Some(0) && less.out.contains("better"), "{less:?}");
}

#[test]
fn a_gated_metric_that_vanishes_fails_on_either_side_and_on_both() {
    let gone = gate_with("--gate anon=5%", |sample| {
        sample.answer.as_mut().unwrap().readings.remove("rss_anon_bytes").is_some()
    });
    assert_eq!(gone.code, Some(1), "{gone:?}");
    let said = "lost: anon of one, ";
    assert!(gone.err.contains(said) && gone.err.contains("8 old rows have it and no new row has"), "{}", gone.err);
    let folder = tempdir().unwrap();
    pair(folder.path(), |sample| sample.answer.as_mut().unwrap().readings.remove("rss_anon_bytes").is_some());
    let compare =
        |files: &str| allocanary(folder.path(), words("compare --gate anon=5%").into_iter().chain(words(files)));
    let new = compare("new.jsonl old.jsonl");
    assert_eq!(new.code, Some(1), "{new:?}");
    assert!(new.err.contains("8 new rows have it and no old row has"), "{}", new.err);
    let both = compare("new.jsonl new.jsonl");
    assert_eq!(both.code, Some(1), "{both:?}");
    assert!(both.err.contains("lost: anon: gated, and neither the old nor the new rows have it"), "{}", both.err);
    assert_eq!(compare("old.jsonl old.jsonl").code, Some(0));
}

#[test]
fn a_gate_needs_a_metric_that_can_get_worse() {
    let folder = tempdir().unwrap();
    pair(folder.path(), |_| true);
    let ran = allocanary(folder.path(), words("compare old.jsonl new.jsonl --gate vsz=5%"));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("`vsz` has no better direction"), "{}", ran.err);
}

/// Nothing can lose more than all of its throughput.
#[test]
fn a_gate_that_could_never_close_is_refused() {
    let folder = tempdir().unwrap();
    pair(folder.path(), |_| true);
    let compare = |gate: &str| allocanary(folder.path(), ["compare", "old.jsonl", "new.jsonl", "--gate", gate]);
    for gate in ["throughput=100%", "throughput=250"] {
        let ran = compare(gate);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("more of it is better, so it cannot get worse by more than 100 %"), "{}", ran.err);
    }
    assert_eq!(compare("throughput=99%").code, Some(0));
    assert_eq!(compare("rss=250%").code, Some(0));
}

#[test]
fn a_study_that_grows_runs_only_what_is_new() {
    let folder = tempdir().unwrap();
    let flags = format!("--candidates system jemalloc --repeats 2 --workloads {TINY}");
    assert_eq!(study(folder.path(), &flags).code, Some(0));
    let more = allocanary(folder.path(), words("study --resume --out out --threads 1,2 --repeats 2"));
    assert_eq!(more.code, Some(0), "{}", more.err);
    let rows = samples(&folder.path().join("out/samples.jsonl"));
    assert_eq!(rows.len(), 8);
    assert_eq!(rows.iter().filter(|row| row.cell.threads == 1).count(), 4);
}

#[test]
fn rows_alone_cannot_tell_which_study_they_are_of() {
    let folder = tempdir().unwrap();
    fs::copy(golden_path("rows.jsonl"), folder.path().join("x.jsonl")).unwrap();
    let ran = allocanary(folder.path(), words("study --resume --out x.jsonl"));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("there is no study.toml next to those rows"), "{}", ran.err);
}

#[test]
fn rows_go_to_a_socket_as_well() {
    let folder = tempdir().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut study = command(folder.path());
    study.args(words(&format!("study --candidates system --threads 1 --repeats 1 --out - --workloads {TINY}")));
    let status = study.stdout(OwnedFd::from(theirs)).status().unwrap();
    drop(study); // holds the other end of the socket
    assert!(status.success());
    let text = std::io::read_to_string(ours).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("{\"schema\":1")).count(), 1, "{text}");
}

#[test]
fn an_environment_that_is_no_text_does_no_harm_and_old_variables_count() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempdir().unwrap();
    let text = std::ffi::OsStr::from_bytes(b"\xff");
    let mut here = command(folder.path());
    here.env("X", text).args(words(&format!("--threads 1 --repeats 1 --workloads {TINY} --out out")));
    let ran: Ran = here.output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let environment = super::support::described("system").environment;
    assert!(environment.owns("MALLOC_ARENA_MAX") && !environment.owns("MALLOC_CONF"));
}

#[test]
fn what_other_workloads_do_changes_no_gate() {
    let folder = tempdir().unwrap();
    let row = rows_of(folder.path(), 1).remove(0);
    let rows = |candidates: &[&str], sizes: &[u64]| -> Vec<Sample> {
        let mut rows = Vec::new();
        for workload in ["server", "other"] {
            for (place, candidate) in candidates.iter().enumerate() {
                for (repeat, size) in (0..).zip(sizes) {
                    let mut row = row.clone();
                    row.cell.workload = workload.into();
                    row.cell.candidate = (*candidate).into();
                    (row.cell.place, row.cell.repeat) = (place as u32, repeat);
                    let grown = workload == "server" && place == 0;
                    let old = 100_000 + u64::from(repeat) * 1000;
                    let rss = row.answer.as_mut().unwrap().readings.get_mut("rss_bytes").unwrap();
                    rss.iter_mut().flatten().for_each(|rss| *rss = 4096 * if grown { *size } else { old });
                    rows.push(row);
                }
            }
        }
        rows
    };
    let old = [100_000, 101_000, 102_000, 103_000, 104_000];
    let new = [109_000, 112_000, 114_300, 117_000, 120_000];
    // p is 2/252 for the one that grew: enough among four, and not among eight.
    let four = ["a", "b", "c", "d"];
    write(folder.path(), &rows(&four, &old), &rows(&four, &new));
    let ran = allocanary(folder.path(), words("compare old.jsonl new.jsonl --gate rss=10% --undecided pass"));
    assert!(ran.code == Some(1) && ran.err.contains("gate broken: "), "{ran:?}");
}

#[test]
fn failures_are_compared_as_shares() {
    let folder = tempdir().unwrap();
    let rows = rows_of(folder.path(), 8);
    let of = |count: u32, failed: u32| -> Vec<Sample> {
        let row = |repeat: u32| {
            let mut row = rows[repeat as usize % 8].clone();
            row.cell.repeat = repeat;
            if repeat < failed {
                row.answer = None;
                row.error = Some(Failure { kind: FailureKind::Crashed, text: "signal 9".into() });
            }
            row
        };
        (0..count).map(row).collect()
    };
    write(folder.path(), &of(40, 2), &of(10, 2));
    let ran = allocanary(folder.path(), words("compare old.jsonl new.jsonl --gate rss=50%"));
    assert!(ran.code == Some(1) && ran.err.contains("2 of 10 cells fail in the new rows, 2 of 40 did"), "{ran:?}");
    write(folder.path(), &of(10, 1), &of(40, 2));
    let ran = allocanary(folder.path(), words("compare old.jsonl new.jsonl --gate rss=50%"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
