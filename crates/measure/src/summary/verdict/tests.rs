//! Verdicts over values that are made here.

use super::*;
use crate::metrics::metric_of_all;

fn group(rss: &[f64]) -> CellRepeats {
    let values = ["resident", "throughput"].map(|name| (name.into(), rss.to_vec()));
    CellRepeats { values: values.into(), ..CellRepeats::default() }
}

fn compared(old: &[f64], new: &[f64], metric: &str, margin: f64) -> GroupComparison {
    let (old, new) = (group(old), group(new));
    compare_groups([(&old, &new)].into_iter(), metric_of_all(metric), margin)[0]
}

fn verdict_of(old: &[f64], new: &[f64], metric: &str) -> Verdict {
    compared(old, new, metric, MARGIN).verdict
}

fn around(middle: f64) -> Vec<f64> {
    (0..8).map(|i| middle + f64::from(i) * 0.001).collect()
}

#[test]
fn verdicts_follow_the_samples() {
    assert_eq!(verdict_of(&around(1.0), &around(2.0), "resident"), Verdict::Worse);
    assert_eq!(verdict_of(&around(2.0), &around(1.0), "resident"), Verdict::Better);
    assert_eq!(verdict_of(&around(1.0), &around(2.0), "throughput"), Verdict::Better);
    assert_eq!(verdict_of(&around(1.0), &around(1.0), "resident"), Verdict::Equal);
    assert_eq!(verdict_of(&around(1.0), &around(1.01), "resident"), Verdict::Equal, "within the margin");
    assert_eq!(verdict_of(&[1.0, 1.1, 1.2, 1.3], &[5.0, 5.1, 5.2, 5.3], "resident"), Verdict::Undecided);
    let five = |middle: f64| -> Vec<f64> { around(middle)[..5].to_vec() };
    let (old, new) = (group(&five(1.0)), group(&five(10.0)));
    let pairs: Vec<(&CellRepeats, &CellRepeats)> = (0..9).map(|at| (&old, if at == 0 { &new } else { &old })).collect();
    let lone = compare_groups(pairs.into_iter(), metric_of_all("resident"), MARGIN)[0];
    assert_eq!(lone.verdict, Verdict::Undecided, "ten times as much, and not to be told from chance among nine");
    assert_eq!(lone.repeats_to_decide(), Some(6));
    let skewed = [41.0, 54.0, 73.0, 76.0, 140.0];
    assert_eq!(verdict_of(&skewed, &[50.0, 60.0, 70.0, 80.0, 90.0], "resident"), Verdict::Undecided);
}

#[test]
fn a_tie_does_not_hide_eight_times_the_memory() {
    let old = [10.0, 10.0, 11.0, 12.0, 13.0];
    let found = compared(&old, &old.map(|value| value * 8.0), "resident", MARGIN);
    assert_eq!((found.verdict, found.ratio()), (Verdict::Worse, 8.0));
}

#[test]
fn ties_take_more_repeats_to_show_a_difference() {
    let all = |new: [f64; 5]| {
        let (old, new) = (group(&[10.0, 10.0, 10.0, 10.0, 20.0]), group(&new));
        let pairs: Vec<(&CellRepeats, &CellRepeats)> = vec![(&old, &new); 3];
        compare_groups(pairs.into_iter(), metric_of_all("resident"), MARGIN)[0]
    };
    let (tied, apart) = (all([20.0; 5]), all([20.1, 20.2, 20.3, 20.4, 20.5]));
    assert_eq!(apart.verdict, Verdict::Worse, "{apart:?}");
    // Of 252 splits of these values 12 differ as much. No split of them differs more.
    assert!((tied.least_p - 12.0 / 252.0).abs() < 1e-12 && tied.p == tied.least_p, "{tied:?}");
    assert_eq!(tied.verdict, Verdict::Undecided);
    let untied = GroupComparison { least_p: 2.0 / 252.0, ..tied };
    let repeats = [tied, untied].map(|one| GroupComparison { interval: None, ..one }.repeats_to_decide().unwrap());
    assert!(repeats[0] > repeats[1], "{repeats:?}");
}

#[test]
fn a_pair_without_figures_does_not_hide_another() {
    let old: Vec<f64> = (100..105).map(f64::from).collect();
    let new = [109.0, 112.0, 114.3, 117.0, 120.0];
    let (old, new, none) = (group(&old), group(&new), group(&[]));
    let pairs = [(&old, &new)].into_iter().chain([(&old, &none); 20]);
    let found = compare_groups(pairs, metric_of_all("resident"), MARGIN);
    assert_eq!((found[0].verdict, found[0].family), (Verdict::Worse, 1));
    assert!(found[1..].iter().all(|one| one.verdict == Verdict::Undecided));
}

#[test]
fn equal_is_said_only_where_the_whole_interval_lies_within_the_margin() {
    let wide: Vec<f64> = [80.0, 88.0, 95.0, 100.0, 104.0, 115.0, 130.0, 150.0].to_vec();
    let more: Vec<f64> = wide.iter().map(|value| value * 1.13).collect();
    let found = compared(&wide, &more, "resident", 0.05);
    let (low, high) = found.interval.unwrap();
    assert!(low < 0.95 && high > 1.2 && found.verdict == Verdict::Undecided, "{found:?}");
    let repeats = found.repeats_to_decide().unwrap();
    assert!((20..500).contains(&repeats), "{repeats}");
    let (one, other) = (around(1.0), around(1.04));
    assert_eq!(compared(&one, &other, "resident", MARGIN).verdict, Verdict::Worse);
    assert_eq!(compared(&one, &other, "resident", 0.05).verdict, Verdict::Equal, "a wider margin calls it equal");
    assert_eq!(compared(&[0.0; 5], &[0.0; 5], "resident", MARGIN).verdict, Verdict::Equal, "nothing is nothing");
}

#[test]
fn a_busy_machine_leaves_small_differences_undecided_and_large_ones_not() {
    let more = |times: f64| compared(&around(1.0), &around(times), "resident", MARGIN);
    let busy = |one: GroupComparison| one.on_a_busy_machine(Unit::Bytes, 3.0);
    assert_eq!(more(1.04).verdict, Verdict::Worse);
    let doubted = busy(more(1.04));
    assert_eq!((doubted.verdict, doubted.doubted), (Verdict::Undecided, true));
    assert_eq!(busy(more(1.1)), more(1.1), "load does not explain that");
    assert_eq!(busy(more(1.0)), more(1.0));
    // Undecided among many, though its own interval leaves 1 out: load can have moved it as well.
    let undecided = |times| GroupComparison { verdict: Verdict::Undecided, ..more(times) };
    assert!(busy(undecided(1.04)).doubted && !busy(undecided(3.0)).doubted);
    // Three others on each CPU, and a time can be four times as long.
    let time = |times| more(times).on_a_busy_machine(Unit::Nanoseconds, 3.0);
    assert!(time(3.9).doubted && time(0.26).doubted && !time(4.1).doubted && !time(0.24).doubted);
}

/// `count` runs within half a percent of each other. The first `spikes` of them are multiplied by `times`.
fn with_spikes(count: u32, spikes: u32, times: f64) -> Vec<f64> {
    (0..count)
        .map(|at| (1.0 + 0.005 * f64::from(at) / f64::from(count)) * if at < spikes { times } else { 1.0 })
        .collect()
}

#[test]
fn spikes_are_not_equal_and_no_better() {
    let (usual, spiky) = (with_spikes(40, 0, 1.0), with_spikes(40, 8, 1.5));
    let found = compared(&usual, &spiky, "resident", MARGIN);
    assert!(found.is_within_margin() && found.verdict == Verdict::Different, "{found:?}");
    assert_eq!((found.spikes(), found.spikes_gone()), (Some(8), None));
    let gone = compared(&spiky, &usual, "resident", MARGIN);
    assert_eq!((gone.verdict, gone.spikes(), gone.spikes_gone()), (Verdict::Different, None, Some(8)));
    let less: Vec<f64> = spiky.iter().map(|value| if *value < 1.2 { value * 0.8 } else { value * 8.0 }).collect();
    assert_eq!(
        verdict_of(&usual, &less, "resident"),
        Verdict::Different,
        "a smaller median, and twelve times the memory"
    );
    // Memory of a busy machine has no spikes from the load, and times do.
    assert_eq!(found.on_a_busy_machine(Unit::Bytes, 3.0), found);
    assert_eq!(found.on_a_busy_machine(Unit::Microseconds, 3.0).verdict, Verdict::Undecided);
}

#[test]
fn one_spike_of_few_runs_is_undecided_and_none_is_equal_with_a_remark() {
    let few = compared(&with_spikes(10, 0, 1.0), &with_spikes(10, 0, 1.0), "resident", MARGIN);
    assert_eq!((few.verdict, few.repeats_to_see_spikes()), (Verdict::Equal, Some(12)));
    let one = compared(&with_spikes(10, 0, 1.0), &with_spikes(10, 1, 10.0), "resident", MARGIN);
    assert_eq!((one.verdict, one.repeats_to_see_spikes()), (Verdict::Undecided, None));
    assert!(one.repeats_to_decide().is_some_and(|repeats| (20..60).contains(&repeats)), "{one:?}");
    let many = compared(&with_spikes(20, 0, 1.0), &with_spikes(20, 0, 1.0), "resident", MARGIN);
    assert_eq!((many.verdict, many.repeats_to_see_spikes()), (Verdict::Equal, None));
}

#[test]
fn a_quantile_is_compared_by_its_own_interval() {
    let of = |new: &[f64]| {
        let (old, new) = (group(&with_spikes(60, 0, 1.0)), group(new));
        compare_quantiles([(&old, &new)].into_iter(), metric_of_all("resident"), 0.9, 0.05)[0]
    };
    let same = of(&with_spikes(60, 0, 1.0));
    assert_eq!((same.verdict, same.quantile), (Verdict::Equal, Some(0.9)));
    let spiky = of(&with_spikes(60, 20, 1.5));
    assert!(spiky.verdict == Verdict::Worse && spiky.interval.unwrap().0 > 1.4, "{spiky:?}");
    let few = of(&with_spikes(20, 8, 1.5));
    assert_eq!((few.verdict, few.interval, few.repeats_to_judge(0.05)), (Verdict::Undecided, None, Some(36)));
}

#[test]
fn a_worsening_is_told_by_the_metrics_better_way() {
    let (old, new) = (around(1.0), around(2.0));
    let (least, most) = compared(&old, &new, "resident", MARGIN).worsening(Better::Lower).unwrap();
    assert!(0.98 < least && most < 1.01, "{least} {most}");
    let (least, most) = compared(&new, &old, "throughput", MARGIN).worsening(Better::Higher).unwrap();
    assert!(0.49 < least && most < 0.51, "{least} {most}");
}
