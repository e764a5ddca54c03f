//! What is measured, and where: the flags that verbs share.

use std::path::PathBuf;

use clap::{Arg, Args, ValueHint};

use allocanary_rows::error::Result;
use allocanary_screens::report::production::DeployTarget;
use allocanary_study::session::{StudyFile, StudyFiles};

use super::values;

/// How often and how long processes are started: flags of every verb that measures.
#[derive(Args, Clone, Default)]
pub struct RepeatFlags {
    /// Repeats: processes per candidate [default: 10].
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// Random seed for the run order [default: 1].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How long.
    #[command(flatten)]
    time: TimeFlags,
}

impl RepeatFlags {
    /// The flags as the fields of a study file.
    pub fn file(&self) -> StudyFile {
        StudyFile { repeats: self.repeats, seed: self.seed, ..self.time.file() }
    }
}

/// How long processes may take: flags of every verb that measures.
#[derive(Args, Clone, Default)]
pub struct TimeFlags {
    /// Time budget (90s, 5m): no round starts that would end after it [default: none].
    #[arg(long, value_name = "TIME")]
    time_budget: Option<String>,
    /// Time limit of one process: a slower one is killed [default: 60s].
    #[arg(long, value_name = "TIME")]
    run_timeout: Option<String>,
}

impl TimeFlags {
    /// The flags as the fields of a study file.
    pub fn file(&self) -> StudyFile {
        StudyFile {
            time_budget: self.time_budget.clone(),
            run_timeout: self.run_timeout.clone(),
            ..StudyFile::default()
        }
    }
}

/// Changes the help of a flag that several verbs share: `words` has the texts of one verb, by the flag's name.
pub fn in_words(flag: Arg, words: &[(&str, &'static str)]) -> Arg {
    match words.iter().find(|(name, _)| flag.get_id() == *name) {
        Some((_, help)) => flag.help(*help),
        None => flag,
    }
}

/// The help of shared flags in verbs that measure our workloads.
const OF_WORKLOADS: [(&str, &str); 2] = [
    ("repeats", "Repeats: fresh processes for each candidate, workload and size [default: 10]"),
    ("seed", "Random seed for run order and workloads [default: 1]"),
];

/// What to measure: workloads, threads, cores, repeats, time limits.
#[derive(Args, Clone, Default)]
#[command(mut_args(|flag| in_words(flag, &OF_WORKLOADS)))]
pub struct MeasureFlags {
    /// Workloads, such as server or server:live=64MiB,settle=500ms [default: server].
    #[arg(long, value_name = "WORKLOAD", num_args = 1.., value_parser = values::workloads(), hide_possible_values = true)]
    workloads: Option<Vec<String>>,
    /// Numbers of worker threads [default: 1,4,16,64; with --emulate-cpus: N threads].
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1..)]
    threads: Option<Vec<u32>>,
    /// Emulate hosts with N CPUs: arenas are sized for N CPUs [default: off].
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 1..)]
    emulate_cpus: Option<Vec<u32>>,
    /// How often, and how long.
    #[command(flatten)]
    repeats: RepeatFlags,
}

impl MeasureFlags {
    /// The flags as the fields of a study file.
    pub fn file(&self) -> StudyFile {
        StudyFile {
            workloads: self.workloads.clone(),
            threads: self.threads.clone(),
            emulate_cpus: self.emulate_cpus.clone(),
            ..self.repeats.file()
        }
    }
}

/// Where cells are found and where results are written.
#[derive(Args, Clone, Default)]
pub struct RunFlags {
    /// Folder for the results: the rows, the study and a report with pictures.
    ///
    /// Default: a new folder `allocanary-out/NAME-1`, `-2` and so on, named after the study.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub out_dir: Option<PathBuf>,
    /// Extra folder to search for cells first; may be repeated.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub cells: Vec<PathBuf>,
    /// Write the files that apply the answer: kubernetes, docker, systemd or rust [default: none].
    ///
    /// They are in a folder of that name below the results: a patch and an image for an init container, a layer, a drop-in of a
    /// unit, or lines of Rust. If the answer needs a library, the stripped library is there too.
    #[arg(long, value_name = "PLACE", value_parser = values::place())]
    pub write_for: Option<DeployTarget>,
}

impl RunFlags {
    /// The folder that the user names.
    pub fn folder(&self) -> Result<Option<StudyFiles>> {
        self.out_dir.as_deref().map(StudyFiles::folder).transpose()
    }
}

/// Where rows are written without a folder: a flag of the verbs whose rows are enough.
#[derive(Args, Clone, Default)]
pub struct RowsFlags {
    /// Write only the rows, to a file (*.jsonl), or to standard output (-) [default: a folder, see --out-dir].
    #[arg(long = "output", value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "out_dir")]
    rows: Option<String>,
}

impl RowsFlags {
    /// The file or the folder that the user names.
    pub fn target(&self, run: &RunFlags) -> Result<Option<StudyFiles>> {
        match &self.rows {
            Some(rows) => StudyFiles::file(rows).map(Some),
            None => run.folder(),
        }
    }

    /// The path of the file or of the folder that the user names.
    pub fn path(&self, run: &RunFlags) -> Option<PathBuf> {
        self.rows.as_ref().map(PathBuf::from).or_else(|| run.out_dir.clone())
    }
}

/// Flags of the command without a verb.
#[derive(Args, Clone, Default)]
pub struct HereFlags {
    /// What to measure.
    #[command(flatten)]
    pub measure: MeasureFlags,
    /// Where to find cells and where to write results.
    #[command(flatten)]
    pub run: RunFlags,
}
