//! A reading in few lines. In: a reading, and its remedies. Out: an answer.

use crate::draw::{Answer, Pasted};
use allocanary_doctor::remedies::{Remedy, conclusion};
use allocanary_heap::{Reading, answer};

/// What the memory is, how certain that is, and the first thing to do.
pub fn brief(reading: &Reading, remedies: &[Remedy]) -> Answer {
    let sure = reading.heaps.iter().map(|heap| format!(". {}", answer::how_sure(heap)));
    let problems = reading.problems.iter().map(|problem| format!(". {problem}"));
    let text = answer::answer(reading).trim_end_matches('.').to_string()
        + &sure.chain(problems).collect::<String>()
        + &format!(". {}", conclusion(reading, remedies));
    let lines = remedies.first().map_or_else(Vec::new, |first| first.first_lines().map(String::from).collect());
    let pasted = Pasted { name: String::new(), heading: String::new(), lines, note: None };
    Answer { text, pasted: Some(pasted).filter(|one| !one.lines.is_empty()), facts: Default::default() }
}
