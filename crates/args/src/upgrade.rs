//! The flags of `upgrade`. In: what the user typed. Out: the fields of a study file.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::measure::{RepeatFlags, RunFlags, in_words};
use super::output::TableFlags;
use super::program::ProgramFlags;
use allocanary_cell::program::Program;
use allocanary_session::StudyFile;

/// The help of shared flags in `upgrade`.
const OWN: [(&str, &str); 2] = [
    ("repeats", "Repeats: processes per candidate and program [default: 10]"),
    ("budget", "Time budget of each program (90s, 5m): no round starts that would end after it [default: none]"),
];

/// Flags of `upgrade`.
#[derive(Args, Clone)]
#[command(mut_args(|flag| in_words(flag, &OWN)))]
pub struct UpgradeFlags {
    /// What you have, such as mimalloc@2.2, perhaps with settings: mimalloc@2.2:purge_delay=0.
    ///
    /// A version without its last number is the newest of these that is built. What is not there is built first, as `allocanary build`
    /// does it.
    #[arg(long, value_name = "CANDIDATE")]
    pub from: String,
    /// What you think of, such as mimalloc@3.3.
    #[arg(long, value_name = "CANDIDATE")]
    pub to: String,
    /// A TOML file with a [program] table; may be repeated, for several programs.
    #[arg(long = "program", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// The program.
    #[command(flatten)]
    pub program: ProgramFlags,
    /// How often, and how long.
    #[command(flatten)]
    repeats: RepeatFlags,
    /// Where to find cells and where to write results.
    #[command(flatten)]
    pub run: RunFlags,
    /// Continue an interrupted upgrade with the same flags [default: off].
    #[arg(long)]
    pub resume: bool,
    /// What is printed.
    #[command(flatten)]
    pub tables: TableFlags,
}

impl UpgradeFlags {
    /// A program's study, changed by each flag that was given, with these two candidates.
    pub fn over(&self, file: StudyFile, candidates: Vec<String>) -> StudyFile {
        let program = self.program.over(file.program.clone().unwrap_or_default());
        let flags = StudyFile { candidates: Some(candidates), ..self.repeats.file() };
        StudyFile { program: Some(program), ..file.overridden_by(flags) }
    }

    /// The program after `--`, if there is one.
    pub fn plain(&self) -> Option<StudyFile> {
        let named = !self.program.program.is_empty();
        named.then(|| StudyFile { program: Some(Program::default()), ..StudyFile::default() })
    }
}
