//! A trace to tune. In: a file of `allocanary record`, flags. Out: its replay by the cells.

use std::path::Path;

use super::subject::{TuneSubject, on_cores, one_size, present};
use super::workload::cells_of;
use crate::args::TuneFlags;
use crate::commands::replay;
use allocanary_facts::system;
use allocanary_measure::metrics::Metrics;
use allocanary_rows::error::Result;
use allocanary_rows::program::Program;
use allocanary_study::search::space::Rest;
use allocanary_study::search::{Goal, GoalSource};
use allocanary_study::session::StudyFile;
use allocanary_trace::reader::Trace;

const HOLDS: &str = "This holds for this trace: a program under another load needs another trace. `allocanary run` with both \
                     candidates shows what the program itself saves.";
const HOLDS_WITH_PYTHON_MALLOC: &str = "This holds for this trace, and for a program that is started with PYTHONMALLOC=malloc, as the recorded one was: add that variable \
     to the lines to paste, or most of Python's objects never reach this allocator. A program under another load needs another trace. \
     `allocanary run` with both candidates shows what the program itself saves.";

/// The trace.
pub fn subject(flags: &TuneFlags, path: &Path) -> Result<TuneSubject> {
    let goal = Goal::parse(&flags.objective, flags.tolerance.as_deref(), GoalSource::Trace, &Metrics::default())?;
    let present = present(flags, system::NAME)?;
    let asked = one_size(flags.measure.file())?;
    let needs_python_malloc = Trace::open(path)?.header.python_malloc;
    let read = replay::study(path, &flags.how, flags.program.over(Program::default()).settle.as_deref())?;
    let candidates = Some(vec![system::NAME.to_string()]);
    let file = StudyFile { candidates, ..read.study.overridden_by(asked) };
    // The program starts its own threads. Emulated cores change only the allocator.
    let file = StudyFile { threads: Some(vec![1]), emulate_cpus: flags.measure.file().emulate_cpus, ..file };
    let (study, roster, serving) = cells_of(&file, flags)?;
    let roster = replay::timed(roster, read.seconds);
    let name = path.file_name().unwrap_or_default().display();
    Ok(TuneSubject {
        goal,
        job: format!("a replay of {name}{}", on_cores(&study)),
        file,
        roster,
        started: None,
        serving,
        allocators: flags.candidates.clone(),
        own: None,
        runtime: None,
        memory: None,
        present,
        rest: Rest::Trace(read.idle + read.paced),
        holds: if needs_python_malloc { HOLDS_WITH_PYTHON_MALLOC } else { HOLDS },
    })
}
