//! The sites of a trace, for its page. In: a trace. Out: the sites that pin its pages, pictures and callers; nothing
//! for a trace without stacks.

use crate::commands::who::program::program;
use allocanary_names::FrameNames;
use allocanary_rows::error::Result;
use allocanary_screens::views::trace::{Flames, Sites};
use allocanary_trace::reader::Trace;
use allocanary_who::{By, Folding, SiteOrder, StackGroups, callers, collapsed, sites, timeline};

/// The number of lines in the picture over time, and of trees of callers.
const LARGEST: usize = 5;

/// The sites. `None` for a trace without stacks, or with only some of the blocks: the others hold pages too.
pub fn of(trace: &Trace) -> Result<Option<Sites>> {
    if trace.header.stacks == 0 || trace.header.rate > 1 {
        return Ok(None);
    }
    let stacks = trace.stacks()?;
    let (taken, resident, merged) = sites::take_wanted(trace, None, false)?;
    let resident = resident.as_ref();
    let mut names = FrameNames::of(&stacks).with_map_of(trace.path());
    let groups =
        StackGroups::of(&taken, sites::one_in(&taken).is_some(), &mut names, By::Function, &Folding::default());
    let mut found = sites::of_groups(&program(trace), &taken, resident, By::Function, &groups, names.notes());
    found.notes.extend(sites::limits(trace, &found, &merged, &stacks));
    let of_stacks = sites::stacks(&taken, resident);
    let order = SiteOrder::of(&found);
    // The order that answers the question comes first.
    let mut orders = vec![SiteOrder::Requested, SiteOrder::Allocated, SiteOrder::Pinned];
    orders.sort_by_key(|other| *other != order);
    let mut flames = Vec::new();
    for order in orders {
        let lines = collapsed::collapsed(&of_stacks, &mut names, &groups.folding, order);
        if !lines.is_empty() {
            flames.extend(noted(drawn(&lines, order), &mut found.notes).map(|drawn| (order, drawn)));
        }
    }
    let first: Vec<&str> = order.sorted(&found).into_iter().take(LARGEST).map(|site| site.name.as_str()).collect();
    let callers = callers::all(&taken, resident, &groups, &mut names, &found, &first, order);
    let timeline = timeline::of(trace, &taken, &groups, LARGEST)?;
    Ok(Some(Sites { found, order, flames, callers, timeline }))
}

/// The flamegraph. If it cannot be made, the page has a note with the reason instead.
fn noted(drawn: std::result::Result<Flames, String>, notes: &mut Vec<String>) -> Option<Flames> {
    drawn.map_err(|error| notes.push(format!("The flamegraph could not be drawn: {error}."))).ok()
}

fn drawn(lines: &str, order: SiteOrder) -> std::result::Result<Flames, String> {
    let svg = collapsed::flamegraph_of_page(lines, order)?;
    let svg = String::from_utf8(svg).map_err(|error| error.to_string())?;
    Flames::of(&svg, collapsed::what(order))
        .ok_or_else(|| "wanted a picture with a script and a height, found another form".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_that_fails_is_a_note() {
        let mut notes = Vec::new();
        assert!(noted(drawn("main;leak 4096\n", SiteOrder::Requested), &mut notes).is_some() && notes.is_empty());
        // This text is not a stack and a number.
        assert!(noted(drawn("no number", SiteOrder::Requested), &mut notes).is_none());
        assert!(notes.len() == 1 && notes[0].starts_with("The flamegraph could not be drawn: "), "{notes:?}");
    }
}
