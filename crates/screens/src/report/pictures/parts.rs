//! Where the memory of each candidate is: a bar of parts for each. In: a panel. Out: a picture.

use maud::{Markup, html};

use super::CandidateName;
use crate::draw::{Picture, class_of};
use crate::report::{anatomies, words};
use allocanary_measure::summary::anatomy::PARTS;
use allocanary_measure::summary::{Anatomy, Panel};

/// The bars of one column. The caption says how the recommended candidate's memory differs from the first one's.
pub fn parts(panel: &Panel, column: usize, taken: Option<usize>, named: CandidateName) -> Option<Picture> {
    let found = anatomies::at(panel, column);
    let most = found.iter().map(|(_, _, anatomy)| anatomy.rss).fold(0.0, f64::max);
    if found.is_empty() || most.is_nan() || most <= 0.0 {
        return None;
    }
    let title = anatomies::heading(panel, column, &found).replacen('w', "W", 1);
    let shown = (0..PARTS.len()).filter(|at| found.iter().any(|(_, _, one)| anatomies::is_much(one.get(PARTS[*at]))));
    let name = |at: usize| {
        let known = found.iter().find(|(_, _, anatomy)| anatomies::is_much(anatomy.get(PARTS[at])));
        known.map_or("", |(_, _, anatomy)| anatomy.name(PARTS[at]))
    };
    let drawing = html! {
        ul.bars {
            @for (at, line, anatomy) in &found {
                li.row {
                    span.of { (named(*at, line)) }
                    span.figure { (anatomies::whole(anatomy)) " MiB" }
                    (bar(anatomy, most))
                }
            }
        }
        ul.key aria-label="Parts" { @for at in shown { li { i class=(class_of(PARTS[at])) {} (name(at)) } } }
    };
    let difference = anatomies::difference(&found, taken).unwrap_or_default();
    let caption =
        format!("Each bar is the process with the median resident memory; its parts add up to that. {difference}");
    Some(Picture { title, drawing, caption: caption.trim_end().to_string(), is_numbered: false })
}

/// The parts of one process, in shares of the longest bar.
fn bar(anatomy: &Anatomy, most: f64) -> Markup {
    let some = PARTS.iter().filter(|part| anatomy.get(**part) > 0.0);
    html! {
        span.track.stacked {
            @for part in some {
                @let bytes = anatomy.get(*part);
                i class=(class_of(*part)) style={ "width:" (format!("{:.2}", bytes / most * 100.0)) "%" }
                    title={ (anatomy.name(*part)) ": " (words::mebibytes(bytes)) " MiB" } {}
            }
        }
    }
}
