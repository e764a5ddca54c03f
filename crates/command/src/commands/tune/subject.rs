//! The subject of a tuning, of any kind: a study without candidates, the allocators to search, what the user has now,
//! and for what the answer is valid.

use crate::args::TuneFlags;
use crate::commands::run::started::Started;
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::{Candidate, Spec};
use allocanary_study::search::Goal;
use allocanary_study::search::space::Rest;
use allocanary_study::session::{Roster, Study, StudyFile};
use allocanary_sys::sys;

/// The subject of a tuning.
pub struct TuneSubject {
    /// What is to be reduced, and what may get worse.
    pub goal: Goal,
    /// The job, with one candidate that the search replaces.
    pub file: StudyFile,
    /// The cells or preloads that run it.
    pub roster: Roster,
    /// What starts the user's program, if the subject is a program.
    pub started: Option<Started>,
    /// The allocators of the space.
    pub serving: Vec<Description>,
    /// The names of the allocators to search; `None` for all allocators of the space.
    pub allocators: Option<Vec<String>>,
    /// The name of the program's own allocator, if it is one of ours.
    pub own: Option<&'static str>,
    /// The name of the program's runtime, if it has settings that are searched.
    pub runtime: Option<&'static str>,
    /// The most resident memory of the program's first run, in bytes.
    pub memory: Option<u64>,
    /// What the user has now.
    pub present: Candidate,
    /// The time that a setting has to take effect.
    pub rest: Rest,
    /// What was measured, and its size.
    pub job: String,
    /// For what the answer is valid, in a sentence.
    pub holds: &'static str,
}

impl TuneSubject {
    /// The number of cores that the candidates see.
    pub fn cores(&self) -> u32 {
        self.file.emulate_cpus.as_ref().and_then(|cores| cores.first().copied()).unwrap_or_else(sys::affinity)
    }
}

/// The candidate that the user has now.
pub fn present(flags: &TuneFlags, default: &str) -> Result<Candidate> {
    Spec::parse(flags.present.as_deref().unwrap_or(default))
        .map(Candidate::from)
        .map_err(|problem| Error::Input(format!("--present: {problem}")))
}

/// The words ` on 40 emulated cores`.
pub fn on_cores(study: &Study) -> String {
    study.hosts[0].cores.map_or(String::new(), |cores| format!(" on {cores} emulated cores"))
}

/// The study, if it is one workload on one size of host.
pub fn one_size(file: StudyFile) -> Result<StudyFile> {
    let counts = [
        ("workloads", file.workloads.as_ref().map_or(0, Vec::len)),
        ("threads", file.threads.as_ref().map_or(0, Vec::len)),
        ("emulate-cpus", file.emulate_cpus.as_ref().map_or(0, Vec::len)),
    ];
    match counts.into_iter().find(|(_, count)| *count > 1) {
        None => Ok(file),
        Some((what, count)) => Err(Error::Input(format!(
            "--{what}: wanted one, found {count}: settings are found for one workload on one size of host"
        ))),
    }
}
