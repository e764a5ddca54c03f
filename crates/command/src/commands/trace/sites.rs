//! The sites of a trace for its page. In: a trace. Out: who pins its pages, and a flamegraph; nothing of a trace without stacks.

use crate::commands::who::program;
use allocanary_report::trace::{Flames, Sites};
use allocanary_study::error::Result;
use allocanary_trace::reader::Trace;
use allocanary_who::{By, Names, collapsed, sites};

/// The sites. A trace of some blocks only has none either: blocks that it lacks hold pages too.
pub fn of(trace: &Trace) -> Result<Option<Sites>> {
    if trace.header.stacks == 0 || trace.header.rate > 1 {
        return Ok(None);
    }
    let stacks = trace.stacks()?;
    let (taken, resident, merged) = sites::take_wanted(trace, None, false)?;
    let mut names = Names::of(&stacks).with_map_of(trace.path());
    let mut found = sites::find(&program(trace), &taken, resident.as_ref(), &mut names, By::Function);
    found.notes.extend(sites::limits(trace, &found, &merged, &stacks));
    let lines = collapsed::collapsed(&sites::stacks(&taken, resident.as_ref()), &mut names);
    let flames = if lines.is_empty() { None } else { noted(drawn(&lines), &mut found.notes) };
    Ok(Some(Sites { found, flames }))
}

/// The flamegraph. A page without it is a page: why it is missing is a note.
fn noted(drawn: std::result::Result<Flames, String>, notes: &mut Vec<String>) -> Option<Flames> {
    drawn.map_err(|error| notes.push(format!("The flamegraph could not be drawn: {error}."))).ok()
}

fn drawn(lines: &str) -> std::result::Result<Flames, String> {
    let svg = collapsed::flamegraph_of_page(lines)?;
    let svg = String::from_utf8(svg).map_err(|error| error.to_string())?;
    Flames::of(&svg).ok_or_else(|| "wanted a picture with a script and a height, found another form".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_that_fails_is_a_note() {
        let mut notes = Vec::new();
        assert!(noted(drawn("main;leak 4096\n"), &mut notes).is_some() && notes.is_empty());
        // Not a line of a stack and a number.
        assert!(noted(drawn("no number"), &mut notes).is_none());
        assert!(notes.len() == 1 && notes[0].starts_with("The flamegraph could not be drawn: "), "{notes:?}");
    }
}
