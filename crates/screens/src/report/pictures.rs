//! The pictures of a panel, as markup. The page sets the colours. In: a panel. Out: titles, drawings and captions. A
//! figure that is missing or not finite leaves a gap. All other figures are drawn.

mod bars;
mod dots;
mod labels;
mod lines;
mod over_time;
mod parts;
mod scatter;

use crate::draw::Picture;
use maud::Markup;

use allocanary_measure::summary::{CandidatePoints, MedianEstimate, Panel, Recommendation, StudySection};

/// How a page writes a candidate's name.
pub type CandidateName<'a> = &'a dyn Fn(usize, &CandidatePoints) -> Markup;

/// All pictures of a panel, memory first. A panel without columns has none.
pub fn of(section: &StudySection, panel: &Panel, named: CandidateName) -> Vec<Picture> {
    let Some(last) = panel.columns.len().checked_sub(1) else { return Vec::new() };
    // A search has its own answer, from more rows than these. These rows alone might give another answer.
    let is_ours = section.about.decided.is_none();
    let taken = Recommendation::of(section, panel).filter(|_| is_ours).and_then(|found| found.line());
    let mut pictures = vec![scatter::memory(section, panel, last)];
    if last == 0 {
        // With one column there are no lines: bars compare its candidates.
        pictures.extend(bars::all(section, panel, taken, named).into_iter().map(Some));
    } else {
        pictures.extend([lines::memory(panel), lines::throughput(panel), lines::latency(panel)]);
    }
    pictures.extend([
        over_time::over_time(panel, last),
        lines::moments(panel, last),
        dots::latency(panel, last),
        parts::parts(panel, last, taken, named),
    ]);
    pictures.into_iter().flatten().collect()
}

/// A figure that can be drawn.
fn figure(line: &CandidatePoints, column: usize, metric: &str) -> Option<MedianEstimate> {
    let found = *line.points.get(column)?.as_ref()?.get(metric)?;
    let bound = |bound: f64| if bound.is_finite() { bound } else { found.median };
    found.median.is_finite().then(|| MedianEstimate { low: bound(found.low), high: bound(found.high), ..found })
}
