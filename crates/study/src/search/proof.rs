//! The proof: compares the finalists with what the user has now, on fresh rows only. In: values of each metric. Out:
//! verdicts that are corrected for the number of finalists, and which finalist to recommend, if any.

use allocanary_measure::metrics::{Better, Metric, MetricName};
use allocanary_measure::summary::{
    CellRepeats, GroupComparison, MARGIN, MISSES, Verdict, compare_groups, ratio_interval,
};
use allocanary_rows::Candidate;

use crate::search::goal::{Goal, Guard};

/// The share of searches that may recommend something although all candidates are equal.
const ERRORS: f64 = 0.05;

/// A finalist's fresh rows, compared with those of the present candidate.
#[derive(Clone, Debug)]
pub struct Finalist {
    /// The candidate.
    pub candidate: Candidate,
    /// The comparison in the objective. Its interval is wide enough for the best of all finalists: whichever is chosen,
    /// 95 % of the intervals contain the true ratio (Bonferroni).
    pub objective: GroupComparison,
    /// Whether the difference in the objective is significant among all finalists (Holm).
    pub significant: bool,
    /// How many of its runs failed, in races and proof, and how many of the present candidate's.
    pub failed: (usize, usize),
    /// Whether a larger share of its runs failed than of the present candidate's.
    pub fails_more: bool,
    /// The comparison in each guard, in the order of the goal.
    pub guards: Vec<(MetricName, GroupComparison, Standing)>,
}

/// The state of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The whole interval is within the limit.
    Kept,
    /// The median is within the limit. The interval is not, or there is none.
    Open,
    /// The median exceeds the limit.
    Exceeded,
}

impl Finalist {
    /// Whether it is proven: it is certainly better in the objective, no guard's median exceeds its limit, and its runs fail no more
    /// often than those of the present candidate. The last condition is needed because failed runs have no rows.
    pub fn is_proven(&self) -> bool {
        let within = self.guards.iter().all(|(_, _, standing)| *standing != Standing::Exceeded);
        self.is_better() && within && !self.fails_more
    }

    /// Whether more rows may prove it: it is certainly better, and it may exceed a limit only by chance.
    pub fn is_in_doubt(&self, goal: &Goal) -> bool {
        let guards = || self.guards.iter().zip(&goal.guards);
        let exceeded = || guards().filter(|((_, _, standing), _)| *standing == Standing::Exceeded);
        let by_chance = |((_, compared, _), guard): (&(_, GroupComparison, Standing), &Guard)| {
            compared.worsening(guard.metric.better).is_some_and(|(least, _)| least <= guard.share)
        };
        self.is_better() && exceeded().count() > 0 && exceeded().all(by_chance)
    }

    /// Whether it is certainly better in the objective, even at the worse end of the promised interval. In all objectives lower
    /// is better.
    pub fn is_better(&self) -> bool {
        let saves = self.objective.interval.is_some_and(|(_, most)| most < 1.0);
        self.significant && self.objective.verdict == Verdict::Better && saves
    }
}

/// Which p values are significant. The chance of even one error among all of them is at most `errors` (Holm).
pub fn holm(p_values: &[f64], errors: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_unstable_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut significant = vec![false; p_values.len()];
    for (step, at) in order.iter().enumerate() {
        if p_values[*at] > errors / (p_values.len() - step) as f64 {
            break;
        }
        significant[*at] = true;
    }
    significant
}

/// Compares each finalist with the present candidate.
pub fn prove(goal: &Goal, present: &CellRepeats, finalists: &[(Candidate, &CellRepeats)]) -> Vec<Finalist> {
    let compared = |metric: &Metric, margin: f64| {
        compare_groups(finalists.iter().map(|(_, group)| (present, *group)), metric, margin)
    };
    let mut objective = compared(&goal.objective, MARGIN);
    // The finalist that looks best here is recommended. So the interval must be valid for whichever finalist is chosen.
    let misses = MISSES / finalists.len().max(1) as f64;
    let values = |group: &CellRepeats| group.values_of(&goal.objective.name).to_vec();
    for (comparison, (_, group)) in objective.iter_mut().zip(finalists) {
        comparison.interval = ratio_interval(&values(present), &values(group), misses);
    }
    let p_values: Vec<f64> = objective.iter().map(|comparison| comparison.p).collect();
    let significant = holm(&p_values, ERRORS);
    let guards: Vec<Vec<GroupComparison>> = goal.guards.iter().map(|guard| compared(&guard.metric, MARGIN)).collect();
    let finalist = |at: usize| Finalist {
        candidate: finalists[at].0.clone(),
        objective: objective[at],
        significant: significant[at],
        failed: (finalists[at].1.failed, present.failed),
        fails_more: finalists[at].1.fails_more_than(present),
        guards: goal
            .guards
            .iter()
            .zip(&guards)
            .map(|(guard, compared)| {
                (guard.metric.name.clone(), compared[at], standing(guard.share, guard.metric.better, &compared[at]))
            })
            .collect(),
    };
    (0..finalists.len()).map(finalist).collect()
}

fn standing(share: f64, better: Better, comparison: &GroupComparison) -> Standing {
    let middle = if better == Better::Higher { 1.0 - comparison.ratio() } else { comparison.ratio() - 1.0 };
    match comparison.worsening(better) {
        _ if middle.is_nan() || middle > share => Standing::Exceeded,
        Some((_, most)) if most <= share => Standing::Kept,
        _ => Standing::Open,
    }
}

/// The finalist to recommend: the proven one with the best objective. Among those within 2 % of the best, it is the one
/// with the fewest settings, because a user has to know each setting.
pub fn recommended(finalists: &[Finalist]) -> Option<&Finalist> {
    let proven = || finalists.iter().filter(|finalist| finalist.is_proven());
    let best = proven().map(|finalist| finalist.objective.new).min_by(f64::total_cmp)?;
    let near = proven().filter(|finalist| finalist.objective.new <= best * (1.0 + MARGIN));
    near.min_by(|a, b| {
        let settings = |finalist: &Finalist| finalist.candidate.spec.settings.len();
        settings(a).cmp(&settings(b)).then(a.objective.new.total_cmp(&b.objective.new))
    })
}

/// The finalists and the present candidate that no other beats in both objective and throughput. If throughput is not
/// measured: the one with the best objective.
pub fn front(goal: &Goal, groups: &[(Candidate, &CellRepeats)]) -> Vec<Candidate> {
    let median = |group: &CellRepeats, name: &str| allocanary_measure::summary::stats::median(group.values_of(name));
    let pairs: Vec<(f64, f64)> = groups
        .iter()
        .map(|(_, group)| {
            (median(group, &goal.objective.name).unwrap_or(f64::NAN), median(group, "throughput").unwrap_or(0.0))
        })
        .collect();
    allocanary_measure::summary::front(&pairs).into_iter().map(|at| groups[at].0.clone()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::search::goal::GoalSource;
    use allocanary_measure::metrics::Metrics;

    /// A group with these values of memory and throughput, and a p99 of 1.
    pub(crate) fn group(rss: &[f64], throughput: &[f64]) -> CellRepeats {
        let p99 = vec![1.0; rss.len()];
        let values = [("resident", rss.to_vec()), ("throughput", throughput.to_vec()), ("p99", p99)];
        CellRepeats { values: values.map(|(name, values)| (name.into(), values)).into(), ..CellRepeats::default() }
    }

    fn around(middle: f64) -> Vec<f64> {
        (0..10).map(|step| middle * (1.0 + f64::from(step) * 0.001)).collect()
    }

    #[test]
    fn holm_steps_down_and_stops() {
        assert_eq!(holm(&[0.01, 0.04, 0.03], 0.05), [true, false, false]);
        assert_eq!(holm(&[0.001, 0.02, 0.04], 0.05), [true, true, true]);
        assert_eq!(holm(&[0.04], 0.05), [true]);
        assert!(holm(&[], 0.05).is_empty());
    }

    #[test]
    fn the_least_memory_within_the_limits_is_recommended() {
        let goal = Goal::parse("memory", None, GoalSource::Workload, &Metrics::default()).unwrap();
        let present = group(&around(95.0), &around(1000.0));
        let small = group(&around(20.0), &around(990.0));
        let tiny_and_slow = group(&around(12.0), &around(500.0));
        let same = group(&around(20.1), &around(995.0));
        let finalists = [
            ("jemalloc:narenas=1,tcache=false".into(), &small),
            ("jemalloc:dirty_decay_ms=0,narenas=1".into(), &tiny_and_slow),
            ("system:arena_max=1".into(), &same),
        ];
        let proven = prove(&goal, &present, &finalists);
        assert_eq!(proven[1].guards[0].2, Standing::Exceeded);
        assert!(proven[0].is_proven() && proven[1].is_better() && !proven[1].is_proven());
        let best = recommended(&proven).unwrap();
        assert_eq!(best.candidate, "system:arena_max=1".into(), "within 2 %, and one setting less");
        let all = [&[("now".into(), &present)][..], &finalists].concat();
        assert_eq!(front(&goal, &all).len(), 4, "each has less memory or more throughput than any other");
    }

    #[test]
    fn what_may_save_nothing_is_not_recommended() {
        let goal = Goal::parse("memory", None, GoalSource::Workload, &Metrics::default()).unwrap();
        let present = group(&around(100.0), &around(1000.0));
        let surely = group(&around(80.0), &around(1000.0));
        // `perhaps` has the best median. Holm's method accepts it in the last step, after the others.
        let perhaps = group(&[40.0, 45.0, 49.0, 50.0, 51.0, 55.0, 60.0, 62.0, 105.0, 106.0], &around(1000.0));
        let names = ["a", "b", "c", "d"];
        let mut finalists: Vec<(Candidate, &CellRepeats)> =
            names.iter().map(|name| ((*name).into(), &surely)).collect();
        finalists.push(("perhaps".into(), &perhaps));
        let proven = prove(&goal, &present, &finalists);
        let last = proven.last().unwrap();
        assert!(last.significant && last.objective.interval.unwrap().1 > 1.0, "{last:?}");
        assert_eq!(recommended(&proven).unwrap().candidate, "a".into());
    }

    #[test]
    fn what_fails_more_often_is_not_recommended() {
        let goal = Goal::parse("memory", None, GoalSource::Workload, &Metrics::default()).unwrap();
        let present = group(&around(95.0), &around(1000.0));
        // The runs of `fails` that did not fail used the least memory.
        let fails = CellRepeats { failed: 4, ..group(&around(20.0)[..6], &around(1000.0)[..6]) };
        let runs = group(&around(40.0), &around(1000.0));
        let finalists = [("fails".into(), &fails), ("runs".into(), &runs)];
        let proven = prove(&goal, &present, &finalists);
        assert!(proven[0].is_better() && proven[0].fails_more);
        assert_eq!(recommended(&proven).unwrap().candidate, "runs".into());
        // As many failures in twice as many runs: 4 failed, and 6 succeeded in races and 10 in the proof. Of the
        // finalist's runs, 4 of 10 failed.
        let present = CellRepeats { failed: 4, raced: 6, ..present };
        assert!(prove(&goal, &present, &finalists)[0].fails_more);
        let present = CellRepeats { failed: 10, raced: 0, ..present };
        let proven = prove(&goal, &present, &finalists);
        assert_eq!(recommended(&proven).unwrap().candidate, "fails".into(), "what the user has fails more often");
    }

    #[test]
    fn keeping_is_an_answer() {
        let goal = Goal::parse("memory", None, GoalSource::Workload, &Metrics::default()).unwrap();
        let present = group(&around(20.0), &around(1000.0));
        let (equal, worse) = (group(&around(20.05), &around(1000.0)), group(&around(30.0), &around(1000.0)));
        let proven = prove(&goal, &present, &[("a".into(), &equal), ("b".into(), &worse)]);
        assert!(recommended(&proven).is_none(), "{proven:?}");
        let few = group(&around(10.0)[..4], &around(1000.0)[..4]);
        assert!(recommended(&prove(&goal, &present, &[("c".into(), &few)])).is_none(), "four rows prove nothing");
    }

    #[test]
    fn a_limit_that_the_interval_crosses_is_open() {
        let goal = Goal::parse("memory", None, GoalSource::Workload, &Metrics::default()).unwrap();
        let noisy: Vec<f64> = (0..10).map(|step| 900.0 + f64::from(step) * 20.0).collect();
        let present = group(&around(95.0), &noisy);
        let less: Vec<f64> = noisy.iter().map(|value| value * 0.98).collect();
        let proven = prove(&goal, &present, &[("a".into(), &group(&around(20.0), &less))]);
        assert_eq!(proven[0].guards[0].2, Standing::Open, "{:?}", proven[0].guards);
        assert!(proven[0].is_proven());
    }
}
