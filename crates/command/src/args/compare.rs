//! Flags of `compare`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::output::OutputFlags;
use super::values;

/// Flags of `compare`.
#[derive(Args, Clone)]
pub struct CompareFlags {
    /// Results before the change: a file (*.jsonl) or a study folder.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub old: PathBuf,
    /// Results after the change: a file (*.jsonl) or a study folder.
    #[arg(value_hint = ValueHint::AnyPath)]
    pub new: PathBuf,
    /// Fail if METRIC clearly got worse by more than PERCENT; may be repeated [default: none].
    ///
    /// METRIC is judged by its median. METRIC.p90 is the value that 90 % of the runs stay within.
    #[arg(long, value_name = "METRIC=PERCENT")]
    pub gate: Vec<String>,
    /// Whether a gate that the samples leave open counts as fail or pass.
    #[arg(long, value_name = "OUTCOME", default_value = "fail", value_parser = ["fail", "pass"])]
    pub undecided: String,
    /// Metrics to compare, and those of the gates (see `allocanary list metrics`).
    #[arg(long, value_name = "METRIC,...", value_delimiter = ',', default_values = ["resident", "peak_resident"])]
    #[arg(value_parser = values::metrics(), hide_possible_values = true)]
    pub metrics: Vec<String>,
    /// Format: table, markdown, json, or github (annotations, and the job's summary in Markdown).
    ///
    /// --json is --format json. Neither that nor --short goes with --format.
    #[arg(long, default_value = "table", value_name = "FORMAT", value_parser = ["table", "markdown", "json", "github"])]
    #[arg(conflicts_with_all = ["short", "json"])]
    pub format: String,
    /// What is printed.
    #[command(flatten)]
    pub output: OutputFlags,
}
