//! `allocanary plan`: what a study would do. In: the study's flags. Out: its cells, and how long they take.

use std::process::ExitCode;

use super::{measure, study, terminal};
use crate::args::StudyFlags;
use crate::error::Result;
use crate::study::{expected, plan};
use crate::units::show_duration;

/// Prints the plan; nothing is run but the cells' own descriptions.
pub fn run(flags: &StudyFlags) -> Result<ExitCode> {
    let (_, file) = study::study(flags)?;
    let study = file.check()?;
    let cells = measure::roster(&flags.run.cells)?.descriptions();
    let planned = plan(&study, &cells)?;
    let mut out = String::new();
    if !study.question.is_empty() {
        out.push_str(&format!("{}\n\n", study.question));
    }
    for (number, cell) in planned.iter().enumerate() {
        out.push_str(&format!("{:>5}  {}\n", number + 1, cell.title()));
    }
    let budget = study.budget.map_or(String::new(), |budget| format!(", at most {} (budget)", show_duration(budget)));
    let span = show_duration(expected(&planned, &cells));
    out.push_str(&format!("\n{} cells, about {span}{budget}; seed {}\n", planned.len(), study.seed));
    terminal::print(out.as_bytes())
}
