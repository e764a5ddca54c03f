//! `allocanary plan`: what a study, or each study of a group, would do. In: the study's flags. Out: its cells, and how
//! long they take.

use std::process::ExitCode;
use std::time::Duration;

use super::{measure, terminal};
use crate::args::StudyFlags;
use allocanary_kernel::units::show_duration;
use allocanary_study::error::Result;
use allocanary_study::expected;

/// Prints the plan; nothing is run but the cells' own descriptions.
pub fn run(flags: &StudyFlags) -> Result<ExitCode> {
    let (_, group) = super::study::study(flags)?;
    let cells = measure::roster_for(&group, &flags.run.cells)?.descriptions();
    let studies = measure::planned(&group, &cells)?;
    let mut out = String::new();
    let mut number = 0;
    for (study, planned) in &studies {
        let heading: Vec<&str> = study
            .name
            .as_deref()
            .into_iter()
            .chain([study.question.as_str()].into_iter().filter(|q| !q.is_empty()))
            .collect();
        if !heading.is_empty() {
            out.push_str(&format!("{}\n\n", heading.join(": ")));
        }
        for cell in planned {
            number += 1;
            out.push_str(&format!("{number:>5}  {}\n", cell.title()));
        }
        let budget =
            study.budget.map_or(String::new(), |budget| format!(", at most {} (budget)", show_duration(budget)));
        let span = show_duration(expected(planned, &cells));
        out.push_str(&format!("\n{} cells, about {span}{budget}; seed {}\n", planned.len(), study.seed));
        if studies.len() > 1 {
            out.push('\n');
        }
    }
    if studies.len() > 1 {
        let span: Duration = studies
            .iter()
            .map(|(study, planned)| {
                let span = expected(planned, &cells);
                study.budget.map_or(span, |budget| budget.min(span))
            })
            .sum();
        out.push_str(&format!("{number} cells of {} studies, about {}\n", studies.len(), show_duration(span)));
    }
    terminal::print(out.as_bytes())
}
