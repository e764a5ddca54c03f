//! Recording a program that is started, loaded and stopped as `run` does it. In: a recorder, a study with a `[program]`
//! table. Out: the moments of its marks, for its traces.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

use crate::commands::measure;
use allocanary_cell::Cell;
use allocanary_cell::program::Program;
use allocanary_cell::workload::Phase;
use allocanary_study::StudyFile;
use allocanary_study::error::{Error, Result};
use allocanary_study::run::program::Launcher;
use allocanary_trace::record::Recording;

/// Whether a program needs more than a terminal.
pub fn is_wanted(program: &Program) -> bool {
    program.is_service() || program.before.is_some() || program.after.is_some() || program.stdin.is_some()
}

/// Runs the program under the recorder. The moments are ready, end of the load, idle, in nanoseconds of the monotonic
/// clock, 0 where a program that ends by itself has none.
pub fn run(recording: &Recording, study: &StudyFile) -> Result<[u64; 3]> {
    let deadline = study.clone().check()?.deadline;
    // What is measured here is not compared: figures of the load are not needed.
    let program = Program { metric: BTreeMap::new(), any_output: true, ..study.program.clone().unwrap_or_default() };
    let work = std::env::temp_dir().join(format!("allocanary-{}", std::process::id()));
    let launcher = Launcher {
        libraries: BTreeMap::new(),
        candidates: Vec::new(),
        own_version: String::new(),
        folder: recording.folder.join("program"),
        work: work.clone(),
        keep: true,
        expected: Mutex::new(None),
        runs: AtomicU32::new(0),
    };
    let title = program.title();
    let is_service = program.is_service();
    let cell = Cell {
        study: None,
        candidate: "own".into(),
        allocator: "own".into(),
        settings: BTreeMap::new(),
        inherited: BTreeMap::new(),
        workload: title.clone(),
        threads: 0,
        cores: None,
        repeat: 0,
        seed: 1,
        place: 0,
        program: Some(Box::new(program)),
    };
    let recorder = |environment: &mut BTreeMap<String, String>| {
        let others = environment.get("LD_PRELOAD").cloned();
        let added = recording.environment(others.as_deref().map(OsStr::new)).map_err(|error| error.to_string())?;
        for (name, value) in added {
            let wanted =
                |value: std::ffi::OsString| format!("{name}: wanted a path in UTF-8, found {}", value.display());
            environment.insert(name.into(), value.into_string().map_err(wanted)?);
        }
        Ok(())
    };
    let recorded = launcher.record(&cell, &recorder, deadline, measure::watch_interrupts());
    let _ = std::fs::remove_dir_all(work);
    let recorded = recorded.map_err(|failure| Error::Input(format!("recording {title}: {}", failure.text)))?;
    let at = |phase: Phase| recorded.moments.iter().find(|(marked, _)| *marked == phase && is_service);
    Ok([Phase::Ready, Phase::Peak, Phase::Idle].map(|phase| at(phase).map_or(0, |(_, nanos)| *nanos)))
}
