//! The whole search. In: a plan and a source of rows. Out: the finalists' proof, and what was tried.
//!
//! The stages have names, `race-1`, `race-2` and so on, and [`FINAL`]. The source of rows keeps the rows of each stage
//! separate. A search that is run again with the same rows makes the same decisions, so it can be resumed.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use allocanary_measure::metrics::MetricName;
use allocanary_measure::summary::stats::median;
use allocanary_measure::summary::{CellRepeats, LEAST_SAMPLES};
use allocanary_rows::Candidate;
use allocanary_rows::error::{Error, Result};

use crate::search::goal::Goal;
use crate::search::proof::{self, Finalist};
use crate::search::race::{self, RaceFigures};

/// The stage with the rows that are reported.
pub const FINAL: &str = "final";

/// Repeats of each candidate in each race.
pub const RACED: u32 = 2;

/// The maximum of finalists, without the present candidate.
pub const FINALISTS: usize = 5;

/// The number of survivors of the first stage. The second stage tries values around them.
const SURVIVORS: usize = 4;

/// A source of rows: cells of a study, replays of a trace, runs of a program.
pub trait Measure {
    /// The rows of these candidates in a stage, `repeats` of each. Rows of the same stage add up: a later call with more
    /// repeats returns the earlier rows too. The group of a candidate that failed has no values. A group counts its failed
    /// runs.
    fn rows(&mut self, stage: &str, candidates: &[Candidate], repeats: u32) -> Result<Rows>;

    /// Seconds that are left of the budget; `None` without a budget.
    fn seconds_left(&self) -> Option<f64>;
}

/// Rows by candidate.
#[derive(Debug, Default)]
pub struct Rows {
    /// The values of each metric.
    pub groups: BTreeMap<Candidate, CellRepeats>,
    /// The reason of a failure, by candidate.
    pub failures: BTreeMap<Candidate, String>,
    /// The mean of the seconds for a row, including the rows of an earlier session.
    pub seconds_each: Option<f64>,
}

/// Makes the candidates of the second stage from the survivors of the first.
pub type SecondStage<'a> = Box<dyn Fn(&[Candidate]) -> Vec<Candidate> + 'a>;

/// What to search.
pub struct Plan<'a> {
    /// The objective and its guards.
    pub goal: Goal,
    /// What the user has now.
    pub present: Candidate,
    /// The allocator that the candidate `own` is, if it is one of ours.
    pub own: Option<&'static str>,
    /// The candidates of the first stage. The present one may be among them.
    pub first: Vec<Candidate>,
    /// The candidates of the second stage.
    pub second: SecondStage<'a>,
    /// The number of fresh rows of each finalist.
    pub repeats: u32,
}

/// The result of a search.
#[derive(Debug)]
pub struct Searched {
    /// The goal, without those default limits whose metrics the rows do not have.
    pub goal: Goal,
    /// The present candidate.
    pub present: Candidate,
    /// The allocator that the candidate `own` is, if it is one of ours.
    pub own: Option<&'static str>,
    /// The finalists, compared with the present candidate on fresh rows.
    pub finalists: Vec<Finalist>,
    /// The fresh rows. Those of the present candidate come first.
    pub fresh: Vec<(Candidate, CellRepeats)>,
    /// The candidates on the Pareto front.
    pub front: Vec<Candidate>,
    /// The number of candidates that were tried.
    pub tried: usize,
    /// The reasons of failures.
    pub failures: BTreeMap<Candidate, String>,
    /// Notes for the user about the search: stages that were left out because of the budget.
    pub notes: Vec<String>,
}

impl Searched {
    /// The finalist to use instead of the present candidate. `None` means: keep the present one.
    pub fn recommended(&self) -> Option<&Finalist> {
        proof::recommended(&self.finalists)
    }

    /// The best finalist with the present candidate's allocator, if the recommended one has another allocator.
    pub fn without_another_allocator(&self) -> Option<&Finalist> {
        let best = self.recommended().filter(|best| !self.is_same_allocator(&best.candidate))?;
        let own = |finalist: &&Finalist| self.is_same_allocator(&finalist.candidate);
        let own: Vec<Finalist> = self.finalists.iter().filter(own).cloned().collect();
        let name = &proof::recommended(&own)?.candidate;
        self.finalists.iter().find(|finalist| finalist.candidate == *name && *name != best.candidate)
    }

    /// Whether a candidate has the present candidate's allocator.
    pub fn is_same_allocator(&self, candidate: &Candidate) -> bool {
        allocator(candidate, self.own) == allocator(&self.present, self.own)
    }

    /// The fresh rows of a candidate.
    pub fn group(&self, candidate: &Candidate) -> Option<&CellRepeats> {
        self.fresh.iter().find(|(name, _)| name == candidate).map(|(_, group)| group)
    }
}

/// The name of a candidate's allocator. For the candidate `own` it is the allocator that `own` is, if that is known.
fn allocator<'a>(candidate: &'a Candidate, own: Option<&'a str>) -> &'a str {
    let name = candidate.spec.name.as_str();
    own.filter(|_| name == "own").unwrap_or(name)
}

/// The state of the races.
struct Races<'a, 'b> {
    plan: &'a Plan<'b>,
    goal: Goal,
    measure: &'a mut dyn Measure,
    /// The rows of each race are a separate stage. Figures are computed over all stages.
    values: BTreeMap<Candidate, BTreeMap<MetricName, Vec<f64>>>,
    failures: BTreeMap<Candidate, String>,
    /// Runs that failed in the races.
    failed: BTreeMap<Candidate, usize>,
    number: u32,
    seconds_each: f64,
    notes: Vec<String>,
}

/// Runs the search.
pub fn search(plan: &Plan, measure: &mut dyn Measure) -> Result<Searched> {
    let mut first: Vec<Candidate> = vec![plan.present.clone()];
    first.extend(plan.first.iter().filter(|candidate| **candidate != plan.present).cloned());
    if first.len() < 2 {
        let text = format!("the space is empty: there is no candidate besides {}, which you have", plan.present);
        return Err(Error::Input(text));
    }
    let mut races = Races {
        plan,
        goal: plan.goal.clone(),
        measure,
        values: BTreeMap::new(),
        failures: BTreeMap::new(),
        failed: BTreeMap::new(),
        number: 0,
        seconds_each: 0.0,
        notes: Vec::new(),
    };
    let survivors = races.halve(first, SURVIVORS)?;
    let mut around = (plan.second)(&survivors);
    around.retain(|candidate| !races.values.contains_key(candidate));
    let second = match races.can_pay(around.len() * RACED as usize * 2) {
        true if !around.is_empty() => [races.halve(around, SURVIVORS)?, survivors].concat(),
        true => survivors,
        false => {
            races.notes.push(format!("the budget left out {} candidates of the second stage", around.len()));
            survivors
        }
    };
    let finalists = races.finalists(&second);
    races.prove(finalists)
}

impl Races<'_, '_> {
    /// Races candidates until at most `keep` are left, in addition to the present one.
    fn halve(&mut self, candidates: Vec<Candidate>, keep: usize) -> Result<Vec<Candidate>> {
        let mut left = candidates;
        loop {
            self.race(&left)?;
            let half = left.len().div_ceil(2).max(keep);
            let ended = left.len() <= keep + 1 || !self.can_pay(half * RACED as usize);
            let best = self.best(&left, if ended { keep } else { half });
            if ended || best.is_empty() {
                return Ok(best);
            }
            left = best;
        }
    }

    /// Measures each candidate [`RACED`] times more.
    fn race(&mut self, candidates: &[Candidate]) -> Result<()> {
        self.number += 1;
        let mut asked = candidates.to_vec();
        if !asked.contains(&self.plan.present) {
            asked.insert(0, self.plan.present.clone());
        }
        let rows = self.measure.rows(&format!("race-{}", self.number), &asked, RACED)?;
        self.seconds_each = rows.seconds_each.unwrap_or(self.seconds_each);
        for (candidate, group) in rows.groups {
            *self.failed.entry(candidate.clone()).or_default() += group.failed;
            let values = self.values.entry(candidate).or_default();
            group.values.into_iter().for_each(|(metric, new)| values.entry(metric).or_default().extend(new));
        }
        self.failures.extend(rows.failures);
        for candidate in candidates {
            self.values.entry(candidate.clone()).or_default();
        }
        self.check(candidates)
    }

    /// Fails if the present candidate failed, if it lacks a metric that the user requested, or if all others of the first race
    /// failed. Leaves out the default limits whose metrics it lacks.
    fn check(&mut self, candidates: &[Candidate]) -> Result<()> {
        let present = &self.plan.present;
        let any = |candidate: &Candidate| self.values.get(candidate).is_some_and(|values| !values.is_empty());
        let why = |candidate: &Candidate| self.failures.get(candidate).map_or("no row", String::as_str);
        if !any(present) {
            return Err(Error::Input(format!("{present}, which you have now, failed: {}", why(present))));
        }
        let others: Vec<&Candidate> = candidates.iter().filter(|candidate| *candidate != present).collect();
        if let Some(first) = others.first().filter(|_| others.iter().all(|candidate| !any(candidate))) {
            let text = format!("all {} other candidates failed; the first, {first}: {}", others.len(), why(first));
            if self.number == 1 {
                return Err(Error::Input(text));
            }
            // The failed candidates are those of the second stage. The survivors of the first stage are still there.
            self.notes.push(text);
        }
        let values = &self.values[present];
        self.notes.extend(self.goal.keep_to(|metric| values.contains_key(metric))?);
        Ok(())
    }

    /// Medians over all races.
    fn figures(&self, candidate: &Candidate) -> RaceFigures {
        let values = self.values.get(candidate)?;
        self.goal.wanted().map(|metric| median(values.get(&metric.name)?)).collect()
    }

    /// The best `keep` of these candidates, best first.
    fn best(&self, candidates: &[Candidate], keep: usize) -> Vec<Candidate> {
        let present = self.figures(&self.plan.present);
        let costs: Vec<_> =
            candidates.iter().map(|candidate| race::costs(&self.goal, &self.figures(candidate), &present)).collect();
        race::best(&costs, keep).into_iter().map(|at| candidates[at].clone()).collect()
    }

    /// Whether the budget is enough for `rows` rows and then for the final stage.
    fn can_pay(&self, rows: usize) -> bool {
        let last = (FINALISTS + 1) * self.plan.repeats as usize;
        self.measure.seconds_left().is_none_or(|left| (rows + last) as f64 * self.seconds_each <= left)
    }

    /// The most promising of all candidates that were raced more than once, and the most promising with the present
    /// candidate's allocator, because a user can adopt it most easily.
    fn finalists(&self, survivors: &[Candidate]) -> Vec<Candidate> {
        let present = self.figures(&self.plan.present);
        let promising = |names: &[Candidate], keep: usize| -> Vec<Candidate> {
            let cost = |name: &Candidate| race::costs(&self.goal, &self.figures(name), &present);
            let costs: Vec<_> = names.iter().map(cost).collect();
            race::promising(&costs, keep).into_iter().map(|at| names[at].clone()).collect()
        };
        let raced_twice = |name: &&Candidate| {
            let rows = self.values[*name].values().map(Vec::len).max().unwrap_or(0);
            **name != self.plan.present && (rows > RACED as usize || survivors.contains(name))
        };
        let known: Vec<Candidate> = self.values.keys().filter(raced_twice).cloned().collect();
        let own = self.plan.own;
        let own: Vec<Candidate> =
            known.iter().filter(|name| allocator(name, own) == allocator(&self.plan.present, own)).cloned().collect();
        let mut finalists = promising(&known, FINALISTS);
        if let Some(best) = promising(&own, 1).pop().filter(|best| !finalists.contains(best)) {
            finalists.truncate(FINALISTS - 1);
            finalists.push(best);
        }
        finalists
    }

    /// Measures the finalists and the present candidate again, and compares only these rows.
    fn prove(mut self, finalists: Vec<Candidate>) -> Result<Searched> {
        let all: Vec<Candidate> = std::iter::once(self.plan.present.clone()).chain(finalists.iter().cloned()).collect();
        let mut repeats = self.plan.repeats;
        if let Some(left) = self.measure.seconds_left() {
            let affordable = left / (all.len() as f64 * self.seconds_each.max(1e-6));
            if affordable < LEAST_SAMPLES as f64 {
                let wanted = all.len() as f64 * LEAST_SAMPLES as f64 * self.seconds_each - left;
                let more = wanted.ceil().max(1.0);
                let said = format!(
                    "--time-budget: too small to judge: the races are done, and {} finalists need {LEAST_SAMPLES} fresh rows each; \
                     {more} s more would be enough",
                    finalists.len()
                );
                return Err(Error::TimeBudget { said, more });
            }
            repeats = repeats.min(affordable as u32);
            if repeats < self.plan.repeats {
                self.notes
                    .push(format!("the budget allowed {repeats} fresh rows each instead of {}", self.plan.repeats));
            }
        }
        let mut found = self.compared(&all, repeats)?;
        let best = found.recommended().map_or(f64::INFINITY, |best| best.objective.new);
        let in_doubt = |finalist: &Finalist| finalist.objective.new < best && finalist.is_in_doubt(&self.goal);
        let affordable = self
            .measure
            .seconds_left()
            .is_none_or(|left| (all.len() as f64 * f64::from(repeats)) * self.seconds_each <= left);
        if found.finalists.iter().any(in_doubt) && affordable {
            // A limit was exceeded, perhaps by chance, so more rows are measured. The objective does not decide whether
            // this is done, so its error probability does not change.
            found = self.compared(&all, repeats * 2)?;
        }
        Ok(found)
    }

    /// The proof with `repeats` fresh rows of each.
    fn compared(&mut self, all: &[Candidate], repeats: u32) -> Result<Searched> {
        let mut rows = self.measure.rows(FINAL, all, repeats)?;
        self.seconds_each = rows.seconds_each.unwrap_or(self.seconds_each);
        self.failures.extend(rows.failures);
        let tried = self.values.len();
        let mut fresh: Vec<(Candidate, CellRepeats)> =
            all.iter().map(|name| (name.clone(), rows.groups.remove(name).unwrap_or_default())).collect();
        for (name, group) in &mut fresh {
            group.failed += self.failed.get(name).copied().unwrap_or(0);
            group.raced += self.values.get(name).and_then(|all| all.values().map(Vec::len).max()).unwrap_or(0);
        }
        let has_values = |group: &CellRepeats| !group.values.is_empty();
        let Some((_, present)) = fresh.first().filter(|(_, group)| has_values(group)) else {
            return Err(Error::Input(format!("{}, which you have now, failed in the final", self.plan.present)));
        };
        let others: Vec<(Candidate, &CellRepeats)> = fresh
            .iter()
            .skip(1)
            .filter(|(_, group)| has_values(group))
            .map(|(name, group)| (name.clone(), group))
            .collect();
        let finalists = proof::prove(&self.goal, present, &others);
        let measured: Vec<(Candidate, &CellRepeats)> =
            std::iter::once((self.plan.present.clone(), present)).chain(others.iter().cloned()).collect();
        let front = proof::front(&self.goal, &measured);
        Ok(Searched {
            goal: self.goal.clone(),
            present: self.plan.present.clone(),
            own: self.plan.own,
            finalists,
            front,
            fresh,
            tried,
            failures: self.failures.clone(),
            notes: self.notes.clone(),
        })
    }
}
