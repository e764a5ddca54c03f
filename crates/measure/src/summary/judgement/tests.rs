//! Gates over rows that are made here: when they hold, break, or stay open.

use super::*;
use crate::metrics::{Metrics, metric_of_all};
use crate::summary::{Fold, Verdict};
use allocanary_rows::Cell;
use allocanary_rows::Moment;
use allocanary_rows::job::Job;
use allocanary_rows::load::Load;
use allocanary_rows::provenance::Provenance;
use allocanary_rows::sample::{Failure, FailureKind, Measured, Sample};

/// A row of a candidate on one thread of `server`, with `rss` bytes of resident memory.
fn row(candidate: &str, place: u32, repeat: u32, rss: f64) -> Sample {
    let cell = Cell { repeat, place, ..Cell::new(candidate, candidate, Job::workload("server", 1)) };
    let answer = Measured {
        version: "5".into(),
        moments: vec![Moment::Idle],
        requested_bytes: vec![0],
        readings: [("resident_bytes", rss), ("anonymous_bytes", rss)]
            .map(|(name, value)| (name.to_string(), vec![Some(value as u64)]))
            .into(),
        operations: 1000,
        active_ns: 1_000_000,
        ..Measured::default()
    };
    // Rows of one cell are told apart by their times.
    let started_ms = u64::from(place * 1000 + repeat);
    Sample { measured: Some(answer), wall_us: 1_000_000, started_ms, ..Sample::empty(&cell, &Provenance::here()) }
}

const MIB: f64 = 1048576.0;

/// Eight repeats of two candidates, some KiB apart.
fn rows() -> Vec<Sample> {
    let of = |(place, name): (u32, &'static str)| {
        (0..8).map(move |repeat| row(name, place, repeat, MIB + f64::from(repeat) * 4096.0))
    };
    [(0, "one"), (1, "two")].into_iter().flat_map(of).collect()
}

fn failed(mut sample: Sample) -> Sample {
    sample.measured = None;
    sample.error = Some(Failure { kind: FailureKind::Crashed, text: "signal 11".into() });
    sample
}

fn grown(mut sample: Sample, times: f64) -> Sample {
    let readings = &mut sample.measured.as_mut().unwrap().readings;
    let rss = readings.get_mut("resident_bytes").unwrap();
    rss.iter_mut().flatten().for_each(|rss| *rss = (*rss as f64 * times) as u64);
    sample
}

fn is_two(sample: &Sample) -> bool {
    sample.cell.candidate == "two".into()
}

fn side(rows: &[Sample]) -> Side {
    let mut fold = Fold::default();
    rows.iter().try_for_each(|row| fold.add(row)).unwrap();
    Side::of("rows", fold).unwrap()
}

fn judged(old: &[Sample], new: &[Sample], metric: &str, most: f64) -> Judgement {
    Judgement::of(&side(old), &side(new), Vec::new(), &[MetricLimit::new(&Metrics::default(), metric, most).unwrap()])
        .unwrap()
}

/// Old rows against these, with a gate of 5 % on rss.
fn against(change: impl Fn(Sample) -> Option<Sample>) -> Judgement {
    let old = rows();
    let new: Vec<Sample> = old.iter().cloned().filter_map(change).collect();
    judged(&old, &new, "resident", 0.05)
}

fn counts(judgement: &Judgement) -> [usize; 3] {
    [Judged::Holds, Judged::Broken, Judged::Undecided].map(|kind| judgement.judged(kind).count())
}

fn lost(judgement: &Judgement) -> Vec<String> {
    judgement.lost.iter().map(|(what, why)| format!("{what}: {why}")).collect()
}

#[test]
fn a_gate_holds_for_what_stayed_and_breaks_for_what_grew() {
    let same = against(Some);
    assert!(counts(&same) == [2, 0, 0] && same.passes(false));
    let grew = against(|row| Some(if is_two(&row) { grown(row, 2.0) } else { row }));
    assert!(counts(&grew) == [1, 1, 0] && !grew.passes(true));
    assert_eq!(grew.judged(Judged::Broken).next().unwrap().1.title(), "resident of two, server, 1 threads");
    // By less than the gate, or on the better side: what a gate asks is answered.
    for times in [1.03, 0.5] {
        let found = against(|row| Some(grown(row, times)));
        assert!(counts(&found) == [2, 0, 0] && found.passes(false), "{times}");
    }
}

#[test]
fn what_crashes_or_is_gone_does_not_pass() {
    let gone = against(|row| (!is_two(&row)).then_some(row));
    assert_eq!((lost(&gone), gone.passes(true)), (vec!["two, server, 1 threads: not in the new rows".into()], false));
    let crashed = against(|row| Some(if is_two(&row) { failed(row) } else { row }));
    assert_eq!(lost(&crashed)[0], "two, server, 1 threads: every process fails in the new rows");
    assert!(!crashed.passes(true));
    let fewer = against(|row| (row.cell.repeat < 2).then_some(row));
    assert!(counts(&fewer) == [0, 0, 2] && !fewer.passes(true), "{:?}", fewer.lost);
    assert!(lost(&fewer)[0].ends_with("gated: 8 old rows have it and only 2 new, of at least 5 that a gate needs"));
    let few: Vec<Sample> = rows().into_iter().filter(|row| row.cell.repeat < 3).collect();
    let both = judged(&few, &few, "resident", 0.05);
    assert!(counts(&both) == [0, 0, 2] && !both.passes(false) && both.passes(true), "as few on both sides");
    let more = judged(&rows()[..8], &rows(), "resident", 0.05);
    assert_eq!((more.only_new.clone(), more.passes(false)), (vec!["two, server, 1 threads".into()], true));
}

/// With a tie the test was no longer exact, and this was "no difference" in one of five candidates: five samples against
/// five, eight times the memory.
#[test]
fn a_tie_hides_nothing() {
    let names = ["c0", "c1", "c2", "c3", "c4"];
    let of = |times: f64| -> Vec<Sample> {
        let values = [1.0, 1.0, 1.01, 1.02, 1.03].map(|share| share * MIB);
        let candidate = |(place, name): (u32, &'static str)| {
            let times = if place == 0 { times } else { 1.0 };
            (0..).zip(values).map(move |(repeat, value)| row(name, place, repeat, value * times))
        };
        (0..).zip(names).flat_map(candidate).collect()
    };
    let found = judged(&of(1.0), &of(8.0), "resident", 0.05);
    assert!(counts(&found)[1] == 1 && !found.passes(true));
    assert_eq!(found.judged(Judged::Broken).next().unwrap().1.key.candidate.to_string(), "c0");
}

/// Candidates with `samples` samples each. In the new rows, the memory of the first candidate is multiplied by `times`.
fn family(names: &[&str], samples: u32, times: f64) -> Judgement {
    let of = |times: f64| -> Vec<Sample> {
        let candidate = |(place, name): (u32, &&str)| {
            let (name, times) = (name.to_string(), if place == 0 { times } else { 1.0 });
            (0..samples).map(move |repeat| row(&name, place, repeat, times * (MIB + f64::from(repeat) * 4096.0)))
        };
        (0..).zip(names).flat_map(candidate).collect()
    };
    judged(&of(1.0), &of(times), "resident", 0.05)
}

const NAMES: [&str; 20] =
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];

/// Five samples against five are never a difference among eight comparisons, by the correction for their number of two-sided
/// tests. A gate asks for one side.
#[test]
fn a_gate_is_broken_where_the_whole_interval_lies_beyond_it() {
    let found = family(&NAMES[..8], 5, 10.0);
    assert_eq!((counts(&found), found.passes(true)), ([7, 1, 0], false));
    assert!(family(&NAMES[..8], 5, 0.1).passes(false), "it got better");
}

#[test]
fn a_gate_is_not_broken_by_what_chance_does_among_twenty() {
    let found = family(&NAMES, 5, 10.0);
    assert_eq!(counts(&found), [19, 0, 1]);
    let (gate, one) = found.judged(Judged::Undecided).next().unwrap();
    let wanted = "one of 20 comparisons is so by chance too often; about 6 repeats would decide";
    assert_eq!(gate.more(&one.comparison), wanted);
    assert_eq!(counts(&family(&NAMES, 6, 10.0)), [19, 1, 0]);
}

/// Four of ten planned rows, three times the memory: it must not pass as undecided.
#[test]
fn a_side_that_is_not_finished_passes_no_gate() {
    let planned = |count: u32| move |row: &Sample| Sample { planned: Some(count), ..row.clone() };
    let (old, new): (Vec<Sample>, Vec<Sample>) = (rows(), rows().iter().map(planned(20)).collect());
    let found = judged(&old, &new, "resident", 0.05);
    assert!(counts(&found) == [2, 0, 0] && !found.passes(true));
    assert!(
        lost(&found)[0].starts_with("the rest of the new study: 16 of 20 planned processes have rows"),
        "{:?}",
        found.lost
    );
    assert!(!judged(&new, &old, "resident", 0.05).passes(true), "the old side");
    let ungated = Judgement::of(&side(&old), &side(&new), vec![metric_of_all("resident").clone()], &[]).unwrap();
    assert!(ungated.passes(false) && ungated.lost.is_empty(), "without a gate it only compares");
    assert!(judged(&old, &rows().iter().map(planned(16)).collect::<Vec<_>>(), "resident", 0.05).passes(false));
}

/// Rows of a machine on which three other tasks for each CPU wanted to run.
#[test]
fn what_load_cannot_explain_breaks_a_gate() {
    let busy = |times: f64| {
        against(|row| {
            let load = Load { runnable: 6, cpus: 2, ..Load::default() };
            Some(grown(Sample { load: Some(load), ..row }, times))
        })
    };
    assert_eq!(counts(&busy(1.12)), [0, 2, 0], "a tenth more is beyond what load does to memory");
    let gate_of_two = |times: f64| {
        let new = rows().into_iter().map(|row| {
            let load = Load { runnable: 6, cpus: 2, ..Load::default() };
            grown(Sample { load: Some(load), ..row }, times)
        });
        judged(&rows(), &new.collect::<Vec<_>>(), "resident", 0.02)
    };
    let found = gate_of_two(1.06);
    assert_eq!(counts(&found), [0, 0, 2]);
    let (gate, one) = found.judged(Judged::Undecided).next().unwrap();
    assert!(gate.more(&one.comparison).starts_with("the machine was too busy"));
}

/// The median stays, and a third of the runs take half as much again.
#[test]
fn a_gate_of_a_quantile_sees_spikes() {
    let of = |spikes: u32| -> Vec<Sample> {
        let value = |at: u32| (MIB + f64::from(at) * 16.0) * if at < spikes { 1.5 } else { 1.0 };
        (0..60).map(|at| row("one", 0, at, value(at))).collect()
    };
    let of_median = judged(&of(0), &of(20), "resident", 0.05);
    assert_eq!(counts(&of_median), [1, 0, 0]);
    let found = judged(&of(0), &of(20), "resident.p90", 0.05);
    assert_eq!((counts(&found), found.passes(true)), ([0, 1, 0], false));
    assert_eq!(found.judged(Judged::Broken).next().unwrap().1.title(), "resident.p90 of one, server, 1 threads");
    assert_eq!(counts(&judged(&of(0), &of(0), "resident.p90", 0.05)), [1, 0, 0]);
    let few = judged(&of(0)[..20], &of(0)[..20], "resident.p90", 0.05);
    let (gate, one) = few.judged(Judged::Undecided).next().unwrap();
    assert_eq!(gate.more(&one.comparison), "about 36 repeats would decide");
}

/// Medians 13 % apart, and samples that spread further than that.
#[test]
fn an_undecided_gate_says_how_many_repeats_would_decide() {
    let found = against(|row| {
        let times = [0.85, 0.9, 0.98, 1.1, 1.16, 1.3, 1.4, 1.5][row.cell.repeat as usize];
        Some(grown(row, times))
    });
    assert!(counts(&found) == [0, 0, 2] && !found.passes(false) && found.passes(true));
    let (gate, one) = found.judged(Judged::Undecided).next().unwrap();
    assert!(gate.more(&one.comparison).ends_with(" repeats would decide"), "{}", gate.more(&one.comparison));
    let worse = against(|row| Some(grown(row, 2.0)));
    assert!(!worse.passes(true), "it lets nothing else through");
}

#[test]
fn a_gated_metric_that_vanishes_fails_on_either_side_and_on_both() {
    let with = rows();
    let without: Vec<Sample> = with
        .iter()
        .cloned()
        .map(|mut row| {
            row.measured.as_mut().unwrap().readings.remove("anonymous_bytes");
            row
        })
        .collect();
    let said = |old: &[Sample], new: &[Sample]| {
        let found = judged(old, new, "anonymous", 0.05);
        (lost(&found).first().cloned(), found.passes(true))
    };
    let one = "anonymous of one, server, 1 threads: gated: 8";
    assert_eq!(said(&with, &without), (Some(format!("{one} old rows have it and no new row has")), false));
    assert_eq!(said(&without, &with), (Some(format!("{one} new rows have it and no old row has")), false));
    let none = "anonymous: gated, and neither the old nor the new rows have it";
    assert_eq!(said(&without, &without), (Some(none.into()), false));
    assert_eq!(said(&with, &with), (None, true));
}

#[test]
fn a_gate_is_for_a_metric_that_can_get_worse_by_that_much() {
    let refused = |name, most| MetricLimit::new(&Metrics::default(), name, most).err().unwrap().to_string();
    assert!(refused("vsz", 0.05).contains("`vsz` has no better direction"));
    for most in [1.0, 2.5] {
        assert!(refused("throughput", most).contains("so it cannot get worse by more than 100 %"));
    }
    let of = |name: &str, most| MetricLimit::new(&Metrics::default(), name, most);
    assert!(of("throughput", 0.99).is_ok() && of("resident", 2.5).is_ok());
    assert!(refused("rs", 0.05).contains("no metric `rs`"));
    for quantile in ["resident.p0", "resident.p100", "resident.px"] {
        assert!(refused(quantile, 0.05).contains("wanted a quantile from p1 to p99"), "{quantile}");
    }
    assert!(refused("rs.p90", 0.05).contains("no metric `rs`"));
    assert_eq!(of("peak_resident.p90", 0.05).unwrap().quantile, Some(0.9));
    assert_eq!(MetricLimit::parse("resident=5%").unwrap(), ("resident", 0.05));
    assert!(MetricLimit::parse("resident").unwrap_err().to_string().contains("wanted METRIC=PERCENT"));
}

/// The verdict's correction is for one metric of one workload, and a gate asks for its own interval alone.
#[test]
fn what_other_workloads_do_changes_no_verdict_and_no_gate() {
    let of = |grown: [f64; 5]| -> Vec<Sample> {
        let mut rows = Vec::new();
        for workload in ["server", "other"] {
            for (place, name) in (0..).zip(["a", "b", "c", "d"]) {
                for (repeat, share) in (0..).zip(grown) {
                    let usual = 100.0 + f64::from(repeat);
                    let share = if workload == "server" && place == 0 { share } else { usual };
                    let mut row = row(name, place, repeat, share * MIB);
                    row.cell.job = Job::workload(workload, 1);
                    rows.push(row);
                }
            }
        }
        rows
    };
    // p is 2/252 for the one that grew: enough among four, and not among eight.
    let (old, new) = (of([100.0, 101.0, 102.0, 103.0, 104.0]), of([111.0, 112.0, 113.0, 114.0, 115.0]));
    let found = judged(&old, &new, "resident", 0.05);
    let worse: Vec<&RowComparison> =
        found.compared.iter().filter(|one| one.comparison.verdict == Verdict::Worse).collect();
    assert!(worse.len() == 1 && worse[0].key.candidate.to_string() == "a" && worse[0].key.workload == "server");
    assert_eq!(counts(&found), [7, 1, 0]);
}

#[test]
fn failures_are_compared_as_shares() {
    let of = |count: u32, failures: u32| -> Vec<Sample> {
        let row = |repeat: u32| row("one", 0, repeat, MIB + f64::from(repeat % 8) * 4096.0);
        (0..count).map(|repeat| if repeat < failures { failed(row(repeat)) } else { row(repeat) }).collect()
    };
    let more = judged(&of(40, 2), &of(10, 2), "resident", 0.5);
    assert_eq!(lost(&more), ["one, server, 1 threads: 2 of 10 processes fail in the new rows, 2 of 40 did in the old"]);
    assert!(!more.passes(true));
    assert!(judged(&of(10, 1), &of(40, 2), "resident", 0.5).passes(false));
}

#[test]
fn sides_without_a_common_cell_cannot_be_compared() {
    let (one, two): (Vec<Sample>, Vec<Sample>) = rows().into_iter().partition(|row| !is_two(row));
    let refused = Judgement::of(&side(&one), &side(&two), vec![metric_of_all("resident").clone()], &[]).err().unwrap();
    assert!(matches!(refused, Error::NoRows(_)), "{refused}");
}
