//! The Pareto front: the pairs that no other pair beats. In: pairs of a cost and a gain. Out: their indices.

/// Indices of the pairs (cost, gain) that no other pair beats, from the lowest gain to the highest. A pair is beaten by
/// one that is not worse in both and better in one. So equal pairs are on the front together, or not at all. A pair
/// with a value that is not finite is never on it.
pub fn front(pairs: &[(f64, f64)]) -> Vec<usize> {
    let beats = |a: &(f64, f64), b: &(f64, f64)| a.0 <= b.0 && a.1 >= b.1 && (a.0 < b.0 || a.1 > b.1);
    let is_number = |pair: &(f64, f64)| pair.0.is_finite() && pair.1.is_finite();
    let others: Vec<&(f64, f64)> = pairs.iter().filter(|pair| is_number(pair)).collect();
    let mut places: Vec<usize> = (0..pairs.len())
        .filter(|at| is_number(&pairs[*at]) && !others.iter().any(|other| beats(other, &pairs[*at])))
        .collect();
    places.sort_by(|a, b| pairs[*a].1.total_cmp(&pairs[*b].1).then(pairs[*a].0.total_cmp(&pairs[*b].0)));
    places
}

#[cfg(test)]
mod tests {
    use super::front;

    #[test]
    fn the_front_holds_what_nobody_beats() {
        assert!(front(&[]).is_empty());
        assert_eq!(front(&[(1.0, 1.0)]), [0]);
        assert_eq!(front(&[(2.0, 5.0), (1.0, 3.0), (3.0, 4.0)]), [1, 0], "the third costs more and gives less");
        assert_eq!(front(&[(1.0, 9.0), (2.0, 8.0), (3.0, 7.0)]), [0], "one beats all");
    }

    #[test]
    fn ties_stand_or_fall_together() {
        assert_eq!(front(&[(1.0, 2.0), (1.0, 2.0)]), [0, 1], "equal pairs do not beat each other");
        assert_eq!(front(&[(1.0, 2.0), (1.0, 3.0)]), [1], "the same cost for less");
        assert_eq!(front(&[(1.0, 2.0), (2.0, 2.0)]), [0], "the same gain for more");
        assert_eq!(front(&[(2.0, 2.0), (1.0, 3.0), (2.0, 2.0)]), [1]);
    }

    #[test]
    fn what_is_no_number_is_left_out_and_beats_nobody() {
        assert_eq!(front(&[(f64::NAN, 2.0), (1.0, f64::INFINITY), (f64::NEG_INFINITY, 1.0), (4.0, 1.0)]), [3]);
    }
}
