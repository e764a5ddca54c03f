//! Flags of `study` and `plan`.

use clap::Args;

use allocanary_study::session::StudyFile;

use super::measure::{MeasureFlags, RowsFlags, RunFlags};
use super::output::TableFlags;
use super::values;

/// Flags of `study` and `plan`.
#[derive(Args, Clone, Default)]
pub struct StudyFlags {
    /// A TOML file, or a shipped study; `cases` runs six of them [default: default].
    #[arg(value_name = "STUDY", value_parser = values::studies(), hide_possible_values = true)]
    pub study: Option<String>,
    /// Allocators with settings, such as system jemalloc:narenas=1,tcache=false.
    ///
    /// The first candidate is the baseline: the others are compared with it. Default: the candidates of the study.
    #[arg(long, value_name = "CANDIDATE", num_args = 1.., value_parser = values::candidates(), hide_possible_values = true)]
    candidates: Option<Vec<String>>,
    /// What to measure.
    #[command(flatten)]
    pub measure: MeasureFlags,
    /// Where to find cells and where to write results.
    #[command(flatten)]
    pub run: RunFlags,
    /// Where to write rows alone.
    #[command(flatten)]
    pub rows: RowsFlags,
    /// Run every large size that fits in memory [default: off].
    ///
    /// The shipped cases have large sizes. A study file defines them in `[[full]]` tables.
    #[arg(long)]
    pub full: bool,
    /// Continue an interrupted study: run what is missing or failed [default: off].
    ///
    /// --out-dir or --output names the results of the study.
    #[arg(long)]
    pub resume: bool,
}

impl StudyFlags {
    /// The flags as the fields of a study file.
    pub fn file(&self) -> StudyFile {
        StudyFile { candidates: self.candidates.clone(), ..self.measure.file() }
    }
}

/// Flags of `study`.
#[derive(Args, Clone, Default)]
pub struct StudyRunFlags {
    /// Print the processes that would run and their expected duration; run nothing [default: off].
    #[arg(long, conflicts_with_all = ["resume", "short", "json", "metrics"])]
    pub plan: bool,
    /// Which study.
    #[command(flatten)]
    pub study: StudyFlags,
    /// What is printed.
    #[command(flatten)]
    pub tables: TableFlags,
}
