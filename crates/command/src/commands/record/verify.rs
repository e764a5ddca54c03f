//! `record --verify`: whether a replay agrees with the program. In: a study with a `[program]` table, its traces. Out:
//! rows of the program under each candidate, rows of the replay under the same candidates, and both side by side.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::traces::{brief, largest, span};
use crate::args::PaceFlags;
use crate::commands::cells;
use crate::commands::measure::MeasureRun;
use crate::commands::output::VerbOutput;
use crate::commands::run::candidates::{described, libraries};
use crate::commands::run::refuse;
use crate::commands::run::started::Started;
use crate::commands::{replay, terminal};
use allocanary_doctor::program::StartableProgram;
use allocanary_facts::ours;
use allocanary_measure::summary::Agreement;
use allocanary_rows::Moment;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::program::Program;
use allocanary_rows::sample::Sample;
use allocanary_rows::{Candidate, PRELOAD};
use allocanary_study::session::{Executor, Linked, Roster, Studies, StudyFile, StudyFiles, plan};
use allocanary_sys::private;
use allocanary_text::units::{Unit, parse_duration};
use allocanary_trace::format::TraceHeader;

/// The candidates if the user names none: those of this build.
pub fn candidates() -> Vec<String> {
    let here = ours().filter(|(_, ours)| ours.is_built && ours.verifies);
    here.map(|(one, _)| one.name.to_string()).collect()
}

/// A planned comparison.
pub struct Verification {
    candidates: Vec<Candidate>,
    /// The runs of the program.
    real: StudyFile,
    /// What runs the replays.
    cells: Roster,
    /// What runs the program.
    started: Started,
    folder: PathBuf,
}

impl Verification {
    /// Plans both sides. A candidate or setting that only one side can have is refused before anything runs.
    pub fn planned(study: &StudyFile, folder: &Path) -> Result<Verification> {
        // Only memory is compared, so figures are not needed. Outputs are not compared, because a program may print its
        // time or its process ID.
        let program = study.program.clone().unwrap_or_default();
        let program = Program { metric: Default::default(), any_output: true, ..program };
        let real = StudyFile { name: Some("real".into()), program: Some(program.clone()), ..study.clone() };
        let checked = real.clone().check()?;
        if checked.hosts.len() > 1 {
            let found = checked.hosts.len();
            return Err(Error::Input(format!("emulate_cpus: wanted one number with --verify, found {found}")));
        }
        if let Some(there) = ["real", "replay"].map(|part| folder.join(part)).iter().find(|part| part.exists()) {
            return Err(Error::Input(format!("{}: exists already: name another --out-dir", there.display())));
        }
        let candidates: Vec<Candidate> = checked.candidates.iter().map(|one| one.spec.clone().into()).collect();
        let is_foreign = |one: &&Candidate| one.spec.name == "own" || one.spec.name.starts_with(PRELOAD);
        if let Some(candidate) = candidates.iter().find(is_foreign) {
            return Err(Error::Input(format!(
                "candidate `{candidate}`: a replay runs with the allocators of this build alone: name others with --candidates, such as \
                 system jemalloc"
            )));
        }
        let cells = cells::roster(&[])?;
        let workloads = Some(vec!["replay".into()]);
        let replay =
            Verification::replay_of(&real, StudyFile { workloads, threads: Some(vec![1]), ..StudyFile::default() });
        plan(&replay.check()?, &cells.descriptions())
            .map_err(|error| Error::Input(format!("--verify: a replay cannot have this: {error}")))?;
        let looked = StartableProgram::look_at(&program.command[0]).map_err(Error::Input)?;
        let described = described(&cells.descriptions(), &looked, &[]);
        let planned = plan(&checked, &described)?;
        refuse(&planned, &looked, "leave out --verify")?;
        let libraries = libraries(candidates.iter().map(|one| one.spec.name.as_str()), &[])?;
        let started = Started::new(&looked, None, described, libraries)?;
        Ok(Verification { candidates, real, cells, started, folder: folder.into() })
    }

    /// A study of a replay, with the fields that it shares with the runs of the program.
    fn replay_of(real: &StudyFile, replay: StudyFile) -> StudyFile {
        StudyFile {
            name: Some("replay".into()),
            candidates: real.candidates.clone(),
            repeats: real.repeats,
            seed: real.seed,
            emulate_cpus: real.emulate_cpus.clone(),
            ..replay
        }
    }

    /// Measures the program, and the replay of each recording's largest trace, under each candidate, and compares. There is one
    /// recording or more.
    pub fn run(mut self, recordings: &[Vec<(PathBuf, TraceHeader)>]) -> Result<ExitCode> {
        let folder = &self.folder;
        // A run of the program takes about as long as the recorded one.
        let spans = recordings.iter().flatten().map(|(_, header)| span(header));
        self.started.seconds = spans.max().unwrap_or_default().as_secs_f64();
        let is_service = self.real.program.as_ref().is_some_and(Program::is_service);
        let replay = Verification::replay_of(&self.real, replays(recordings)?);
        let repeats = self.real.repeats.map(|repeats| repeats.div_ceil(recordings.len() as u32));
        let replay = StudyFile { repeats, ..replay };
        let Some(real) = rows(
            self.real,
            &self.started.roster(),
            &allocanary_study::session::ProgramRunner::new(&self.started.launcher),
            folder.join("real"),
        )?
        else {
            return Ok(ExitCode::from(130));
        };
        let Some(replay) = rows(replay, &self.cells, &Linked::new(&self.cells), folder.join("replay"))? else {
            return Ok(ExitCode::from(130));
        };
        let agreement = Agreement::of(&self.candidates, &real, &replay, is_service);
        let csv = folder.join("verify.csv");
        private::replace(&csv, agreement.csv().as_bytes())
            .map_err(|error| Error::file(&csv, "writing the comparison", error))?;
        terminal::print_plain(&format!("{}{}", agreement.table(), beside(&real, &recordings[0])))?;
        if recordings.len() > 1 {
            terminal::print_plain(&spread(recordings.len(), &replay))?;
        }
        terminal::tell(format_args!("rows: {0}/real, {0}/replay; ranges: {1}", folder.display(), csv.display()));
        Ok(if agreement.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

/// A study of the replays of all recordings, each as a workload. Its time limit is the longest one of these.
fn replays(recordings: &[Vec<(PathBuf, TraceHeader)>]) -> Result<StudyFile> {
    let replay =
        |made: &Vec<(PathBuf, TraceHeader)>| Ok(replay::study(&largest(made).0, &PaceFlags::default(), None)?.study);
    let studies = recordings.iter().map(replay).collect::<Result<Vec<_>>>()?;
    let workloads = studies.iter().flat_map(|study| study.workloads.clone().unwrap_or_default()).collect();
    let longest = studies.into_iter().max_by_key(|study| study.run_timeout.as_deref().and_then(parse_duration));
    Ok(StudyFile { workloads: Some(workloads), ..longest.unwrap_or_default() })
}

/// A line that says how far the recordings differ. How much memory the threads of a program have at one time depends on the order in which
/// they run.
fn spread(count: usize, replay: &[Sample]) -> String {
    let live = || replay.iter().filter_map(|row| row.measured.as_ref()?.notes.get("trace_peak_live").copied());
    let [least, most] = [live().min(), live().max()].map(|bytes| Unit::Bytes.show(bytes.unwrap_or(0) as f64));
    format!("replay: of {count} recordings, which have {least} to {most} live at the peak\n")
}

/// If several processes of the program lived at the same time, a text about the memory that the replay leaves out.
fn beside(real: &[Sample], traces: &[(PathBuf, TraceHeader)]) -> String {
    const SHOWN: usize = 5;
    let counts = real.iter().filter_map(|row| {
        let answer = row.measured.as_ref()?;
        answer.reading("processes", Moment::Peak).max(answer.reading("processes", Moment::Idle))
    });
    let most = counts.max().unwrap_or(0);
    if most < 2 {
        return String::new();
    }
    let replayed = &largest(traces).0;
    let pid = traces.iter().find(|(path, _)| path == replayed).map_or(0, |(_, header)| header.pid);
    let mut out = format!(
        "up to {most} processes lived at one time: `real` is the sum of all of them, `replay` is\nof {} alone\n",
        replayed.file_name().unwrap_or_default().display()
    );
    // A process that executes another program has a trace for each program, but is one process. The last trace
    // describes it.
    let others: BTreeMap<u32, &(PathBuf, TraceHeader)> = traces.iter().map(|trace| (trace.1.pid, trace)).collect();
    let others: Vec<_> = others.into_values().filter(|(_, header)| header.pid != pid).collect();
    for (path, header) in others.iter().take(SHOWN) {
        let (name, resident) =
            (path.file_name().unwrap_or_default().display(), Unit::Bytes.show(header.most_resident as f64));
        out.push_str(&format!("left out: {name}: up to {resident} resident: {}\n", brief(&header.command)));
    }
    match others.len() {
        0 => out.push_str("left out: processes that have no trace\n"),
        count if count > SHOWN => out.push_str(&format!("left out: {} more traces\n", count - SHOWN)),
        _ => {}
    }
    out
}

/// Runs a study into a folder; `None` if the user interrupted it.
fn rows(file: StudyFile, roster: &Roster, executor: &dyn Executor, folder: PathBuf) -> Result<Option<Vec<Sample>>> {
    let group = &Studies(vec![file]);
    let output = VerbOutput::tables("record");
    MeasureRun { group, roster, target: StudyFiles::Folder(folder), resume: false, executor, write_for: None, output }
        .samples()
}
