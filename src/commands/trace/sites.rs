//! The sites of a trace for its page. In: a trace. Out: who pins its pages, and a flamegraph; nothing of a trace without stacks.

use crate::commands::who::program;
use allocanary_report::trace::{Flames, Sites};
use allocanary_study::error::{Error, Result};
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
    let flames = if lines.is_empty() { None } else { Some(drawn(&lines)?) };
    Ok(Some(Sites { found, flames }))
}

fn drawn(lines: &str) -> Result<Flames> {
    let wrong = |error: String| Error::Input(format!("drawing the flamegraph: {error}"));
    let svg = collapsed::flamegraph_of_page(lines).map_err(wrong)?;
    let svg = String::from_utf8(svg).map_err(|error| wrong(error.to_string()))?;
    Flames::of(&svg).ok_or_else(|| wrong("wanted a picture with a script and a height, found another form".into()))
}
