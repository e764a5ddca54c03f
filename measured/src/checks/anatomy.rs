//! Checks that the parts of the resident memory add up, for every candidate of the default study.

use allocanary_measure::summary::Anatomy;
use allocanary_study::session::find_shipped;

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::{Place, cell};
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "anatomy",
    works: "of a cell's resident memory less than 2 % is in no part, for each candidate of the default study",
    broken: "more than 2 % of it is",
    limit: 0.02,
    begin,
};

fn begin(place: &Place) -> Result<Measure, Problem> {
    let failed = |why: String| Problem::Failed(format!("the default study: {why}"));
    let study = find_shipped("default").ok_or_else(|| failed("not found".into()))?;
    let study = study.map_err(|error| failed(error.to_string()))?;
    let mut answers = Vec::new();
    for candidate in study.0[0].candidates.iter().flatten() {
        answers.push(place.answers(cell(candidate, "server:settle=1ms", 4)?)?);
    }
    Ok(Box::new(move || {
        // The candidate with the most memory that is in no part.
        let mut worst = Pair { checked: 0.0, control: 1.0 };
        for answer in &answers {
            let found = Anatomy::of(&answer()?, Some(4));
            let found = found.ok_or_else(|| Problem::Failed("a cell's answer lacks the readings".into()))?;
            let pair = Pair { checked: found.unexplained.abs(), control: found.rss };
            if pair.checked * worst.control > worst.checked * pair.control {
                worst = pair;
            }
        }
        Ok(worst)
    }))
}
