//! Racing: drops the candidates that others dominate. In: the figures of a few rows of each. Out: the survivors.
//!
//! A guard within its limit costs nothing. So a race compares the objective, unless a limit is exceeded. The figures of a race are
//! few, and the selection itself biases them. They are never reported.

use crate::search::goal::Goal;

/// A candidate's figures so far: medians of the objective and of each guard, in the order of [`Goal::metrics`]. `None`
/// if all of its rows failed.
pub type RaceFigures = Option<Vec<f64>>;

/// A candidate's costs: the objective, and for each guard the share beyond its limit. Lower is better.
pub fn costs(goal: &Goal, figures: &RaceFigures, present: &RaceFigures) -> Option<Vec<f64>> {
    let (figures, present) = (figures.as_ref()?, present.as_ref()?);
    let objective = *figures.first()?;
    let beyond = goal.guards.iter().zip(figures.iter().skip(1).zip(present.iter().skip(1)));
    let beyond = beyond.map(|(guard, (new, old))| (guard.worsening(*old, *new) - guard.share).max(0.0));
    let costs: Vec<f64> = std::iter::once(objective).chain(beyond).collect();
    costs.iter().all(|cost| cost.is_finite()).then_some(costs)
}

/// The nondominated rank of each: 0 if no other dominates it, 1 if only those of rank 0 dominate it, and so on. A
/// candidate without costs has no rank.
pub fn ranks(costs: &[Option<Vec<f64>>]) -> Vec<Option<usize>> {
    let dominates = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a <= b) && a.iter().zip(b).any(|(a, b)| a < b);
    let mut ranks = vec![None; costs.len()];
    for rank in 0..costs.len() {
        let left: Vec<usize> = (0..costs.len()).filter(|at| costs[*at].is_some() && ranks[*at].is_none()).collect();
        let cost = |at: usize| costs[at].as_deref().unwrap_or_default();
        let front = left.iter().filter(|at| !left.iter().any(|other| dominates(cost(*other), cost(**at))));
        let front: Vec<usize> = front.copied().collect();
        front.into_iter().for_each(|at| ranks[at] = Some(rank));
    }
    ranks
}

/// The indices of the best `keep`, best first: by rank, then by how far limits are exceeded, then by the objective.
pub fn best(costs: &[Option<Vec<f64>>], keep: usize) -> Vec<usize> {
    let ranks = ranks(costs);
    let mut order: Vec<usize> = (0..costs.len()).filter(|at| ranks[*at].is_some()).collect();
    let beyond = |at: usize| costs[at].as_ref().map_or(0.0, |costs| costs.iter().skip(1).sum::<f64>());
    let objective = |at: usize| costs[at].as_ref().and_then(|costs| costs.first()).copied().unwrap_or(f64::INFINITY);
    order.sort_by(|a, b| {
        let by_rank = ranks[*a].cmp(&ranks[*b]);
        by_rank.then(beyond(*a).total_cmp(&beyond(*b))).then(objective(*a).total_cmp(&objective(*b)))
    });
    order.truncate(keep);
    order
}

/// The indices of the best `keep` for a proof, best first. Those within all limits come first, by the objective. Then
/// come the others, by how far they exceed limits. A proof can recommend only the former.
pub fn promising(costs: &[Option<Vec<f64>>], keep: usize) -> Vec<usize> {
    let key = |at: usize| {
        let costs = costs[at].as_ref()?;
        Some((costs.iter().skip(1).sum::<f64>(), *costs.first()?))
    };
    let mut order: Vec<(usize, (f64, f64))> = (0..costs.len()).filter_map(|at| Some((at, key(at)?))).collect();
    order.sort_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    order.into_iter().take(keep).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::goal::GoalSource;
    use allocanary_measure::metrics::Metrics;

    #[test]
    fn a_guard_costs_nothing_within_its_limit() {
        let goal = Goal::parse("memory", None, GoalSource::Workload, &Metrics::default()).unwrap();
        let present = Some(vec![90.0, 1000.0, 10.0]);
        let of = |figures: [f64; 3]| costs(&goal, &Some(figures.to_vec()), &present).unwrap();
        assert_eq!(of([20.0, 960.0, 11.0]), [20.0, 0.0, 0.0]);
        let slow = of([12.0, 500.0, 10.0]);
        assert!((slow[1] - 0.45).abs() < 1e-9, "{slow:?}");
        assert_eq!(costs(&goal, &None, &present), None, "all rows failed");
        assert_eq!(costs(&goal, &Some(vec![f64::NAN, 1.0, 1.0]), &present), None);
    }

    #[test]
    fn what_keeps_to_the_limits_comes_first_in_a_proof() {
        let costs = [[1.0, 0.5], [9.0, 0.0], [7.0, 0.0], [2.0, 0.1]].map(|row| Some(row.to_vec()));
        assert_eq!(promising(&costs, 3), [2, 1, 3]);
        assert!(promising(&[None], 3).is_empty());
    }

    #[test]
    fn ranks_are_layers_of_fronts() {
        let costs: Vec<Option<Vec<f64>>> =
            [[1.0, 9.0], [5.0, 5.0], [9.0, 1.0], [6.0, 6.0], [9.0, 9.0]].iter().map(|row| Some(row.to_vec())).collect();
        assert_eq!(ranks(&costs), [Some(0), Some(0), Some(0), Some(1), Some(2)]);
        assert_eq!(best(&costs, 3), [2, 1, 0], "what exceeds a limit least comes first");
        assert_eq!(ranks(&[None, Some(vec![1.0])]), [None, Some(0)]);
        let equal = vec![Some(vec![1.0]); 4];
        assert_eq!(ranks(&equal), [Some(0); 4], "equals do not dominate each other");
        assert_eq!(best(&equal, 2), [0, 1]);
        assert!(best(&[], 3).is_empty() && best(&[None], 3).is_empty());
    }
}
