//! A check: two hypotheses and how a pair of readings is taken. In: where the binaries are. Out: pairs, until they are decided.

use crate::decision::{Decision, MOST, Pair, decide, ratio};
use crate::place::Place;
use crate::problem::Problem;

/// A check of something that only a real reading shows.
pub struct Check {
    /// Its name on the command line.
    pub name: &'static str,
    /// The hypothesis that is true if the ratio of the readings is below the limit.
    pub works: &'static str,
    /// The hypothesis that is true if the ratio is above the limit.
    pub broken: &'static str,
    /// The greatest ratio of the checked reading to the control that works.
    pub limit: f64,
    /// Prepares the check once; each call of the result takes a pair.
    pub begin: fn(&Place) -> Result<Measure, Problem>,
}

/// Takes one pair.
pub type Measure = Box<dyn FnMut() -> Result<Pair, Problem>>;

/// The result of a check.
#[derive(Debug)]
pub struct Outcome {
    /// The decision, or why there is none.
    pub decision: Result<Decision, Problem>,
    /// How many pairs were taken.
    pub pairs: usize,
    /// The ratio of the medians; not a number without pairs.
    pub ratio: f64,
}

impl Check {
    /// Takes pairs until they are decided, [`MOST`] at most. `seen` is called after each pair with their number.
    pub fn run(&self, place: &Place, seen: &mut dyn FnMut(usize)) -> Outcome {
        let mut pairs = Vec::new();
        let decision = self.take(place, &mut pairs, seen);
        Outcome { decision, pairs: pairs.len(), ratio: ratio(&pairs) }
    }

    fn take(&self, place: &Place, pairs: &mut Vec<Pair>, seen: &mut dyn FnMut(usize)) -> Result<Decision, Problem> {
        let mut measure = (self.begin)(place)?;
        while pairs.len() < MOST {
            pairs.push(measure()?);
            seen(pairs.len());
            let decision = decide(pairs, self.limit);
            if decision != Decision::Undecided {
                return Ok(decision);
            }
        }
        Ok(Decision::Undecided)
    }
}

/// Whether the outcomes let a change pass: none is broken or has failed, and with `all_decided` each is decided.
pub fn passes(outcomes: &[Outcome], all_decided: bool) -> bool {
    outcomes.iter().all(|outcome| match &outcome.decision {
        Ok(Decision::Works) => true,
        Ok(Decision::Undecided) | Err(Problem::Skipped(_)) => !all_decided,
        Ok(Decision::Broken) | Err(Problem::Failed(_)) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(begin: fn(&Place) -> Result<Measure, Problem>) -> Outcome {
        let check = Check { name: "test", works: "less", broken: "as much", limit: 0.5, begin };
        let mut seen = 0;
        let outcome = check.run(&Place::new().unwrap(), &mut |pairs| seen = pairs);
        assert_eq!(seen, outcome.pairs);
        outcome
    }

    fn always(checked: f64) -> Measure {
        Box::new(move || Ok(Pair { checked, control: 1.0 }))
    }

    #[test]
    fn pairs_are_taken_until_they_are_decided_or_the_most_are_there() {
        let (works, broken, neither) =
            (check(|_| Ok(always(0.1))), check(|_| Ok(always(0.9))), check(|_| Ok(always(0.5))));
        assert!(matches!((works.decision, works.pairs, works.ratio), (Ok(Decision::Works), 10, 0.1)));
        assert!(matches!((broken.decision, broken.pairs), (Ok(Decision::Broken), 10)));
        assert!(matches!((neither.decision, neither.pairs), (Ok(Decision::Undecided), MOST)));
    }

    #[test]
    fn a_program_that_fails_ends_its_check() {
        let failed = check(|_| Err(Problem::Failed("no".into())));
        assert!(matches!((&failed.decision, failed.pairs), (Err(Problem::Failed(_)), 0)) && failed.ratio.is_nan());
        let mut left = 3;
        let check = Check {
            name: "test",
            works: "",
            broken: "",
            limit: 0.5,
            begin: |_| Ok(Box::new(|| Err(Problem::Skipped("no tool".into())))),
        };
        let outcome = check.run(&Place::new().unwrap(), &mut |_| left -= 1);
        assert!(matches!((outcome.decision, outcome.pairs, left), (Err(Problem::Skipped(_)), 0, 3)));
    }

    #[test]
    fn what_is_broken_fails_and_what_is_undecided_only_where_each_must_be_decided() {
        let of = |decision| Outcome { decision, pairs: 0, ratio: 0.0 };
        let all = |decision: fn() -> Result<Decision, Problem>| {
            [false, true].map(|all_decided| passes(&[of(Ok(Decision::Works)), of(decision())], all_decided))
        };
        assert_eq!(all(|| Ok(Decision::Works)), [true, true]);
        assert_eq!(all(|| Ok(Decision::Undecided)), [true, false]);
        assert_eq!(all(|| Err(Problem::Skipped(String::new()))), [true, false]);
        assert_eq!(all(|| Ok(Decision::Broken)), [false, false]);
        assert_eq!(all(|| Err(Problem::Failed(String::new()))), [false, false]);
    }
}
