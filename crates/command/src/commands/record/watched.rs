//! Records a program that is started, loaded and stopped as by `run`. In: a recorder, a study with a `[program]` table.
//! Out: the moments of its marks, for its traces.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::recorded::{INTERRUPTED, Recorded};
use crate::commands::run::started::Started;
use crate::commands::{measure, terminal};
use allocanary_rows::Cell;
use allocanary_rows::Moment;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::job::Job;
use allocanary_rows::program::Program;
use allocanary_study::program::{Interrupted, ProgramRecorder};
use allocanary_study::session::StudyFile;
use allocanary_trace::record::RecordOptions;

/// Whether a program needs more than to be run in a terminal.
pub fn is_wanted(program: &Program) -> bool {
    let Program { stdin, before, after, check, memory_limit, cpu_limit, .. } = program;
    program.is_service() || [stdin, before, after, check, memory_limit, cpu_limit].into_iter().any(Option::is_some)
}

/// Runs the program under the recorder, for the `number`th time.
pub fn run(recording: &RecordOptions, study: &StudyFile, number: u32) -> Result<Recorded> {
    let deadline = study.clone().check()?.deadline;
    // This run is not compared, so figures of the load are not needed.
    let program = Program { metric: BTreeMap::new(), any_output: true, ..study.program.clone().unwrap_or_default() };
    let mut started = Started::bare()?;
    started.keep_in(recording.folder.join("program"));
    let title = program.title();
    let is_service = program.is_service();
    let cell = Cell { repeat: number, ..Cell::new("own", "own", Job::of_program(program)) };
    let add = |environment: &mut BTreeMap<String, String>| {
        let others = environment.get("LD_PRELOAD").cloned();
        let added = recording.environment(others.as_deref().map(OsStr::new)).map_err(|error| error.to_string())?;
        for (name, value) in added {
            let wanted =
                |value: std::ffi::OsString| format!("{name}: wanted a path in UTF-8, found {}", value.display());
            environment.insert(name.into(), value.into_string().map_err(wanted)?);
        }
        Ok(())
    };
    let (stop, interrupted) = (measure::watch_interrupts(), Mutex::new(Interrupted::default()));
    let recorder = ProgramRecorder { environment: &add, interrupted: &interrupted, reads_pages: recording.stacks > 0 };
    let recorded = started.launcher.record(&cell, Some(recorder), deadline, stop);
    let times = |moments: &[(Moment, u64)]| {
        let at = |moment: Moment| moments.iter().find(|(marked, _)| *marked == moment && is_service);
        [Moment::Ready, Moment::Peak, Moment::Idle].map(|moment| at(moment).map_or(0, |(_, nanos)| *nanos))
    };
    if stop.load(Ordering::Relaxed) {
        terminal::tell("interrupted: what was recorded so far is kept");
        let Interrupted { moments, end, residents } = interrupted.into_inner().unwrap_or_else(PoisonError::into_inner);
        return Ok(Recorded { code: INTERRUPTED, signal: None, marks: times(&moments), end, residents });
    }
    let recorded = recorded.map_err(|failure| Error::Input(format!("recording {title}: {}", failure.text)))?;
    Ok(Recorded { code: 0, signal: None, marks: times(&recorded.moments), end: 0, residents: recorded.residents })
}
