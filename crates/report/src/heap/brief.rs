//! A reading in few lines. In: a reading, and what the diagnosis advises. Out: an answer.

use super::remedies::{Paste, remedies};
use crate::answer::{Answer, Pasted};
use allocanary_heap::{Reading, answer};

/// What the memory is, how sure that is, and the first remedy.
pub fn brief(reading: &Reading, paste: &[Paste]) -> Answer {
    let sure = reading.heaps.iter().map(|heap| format!(". {}", answer::how_sure(heap)));
    let problems = reading.problems.iter().map(|problem| format!(". {problem}"));
    let first = remedies(reading, paste).into_iter().next();
    let remedy = first.as_ref().map(|remedy| format!(". {}", remedy.text));
    let text = answer::answer(reading).trim_end_matches('.').to_string()
        + &sure.chain(problems).chain(remedy).collect::<String>();
    let lines = first.map_or(Vec::new(), |remedy| remedy.lines);
    let pasted = Pasted { name: String::new(), heading: String::new(), lines, note: None };
    Answer { text, pasted: Some(pasted).filter(|one| !one.lines.is_empty()), facts: Default::default() }
}
