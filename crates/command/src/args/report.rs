//! Flags of `report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::values;

/// Flags of `report`.
#[derive(Args, Clone)]
pub struct ReportFlags {
    /// Result files (*.jsonl), study folders, - for standard input; or one trace of `allocanary record`.
    ///
    /// Several results are read as one: one report can show many hosts. A trace has the formats table, html, csv (live bytes over time)
    /// and json.
    #[arg(required = true, value_name = "ROWS", value_hint = ValueHint::AnyPath)]
    pub rows: Vec<PathBuf>,
    /// Format of the report: table, markdown, csv, html or json [default: by the ending of --output (.html, .md, .csv, .json), else table].
    #[arg(long, value_name = "FORMAT", value_parser = values::formats(), hide_possible_values = true)]
    pub format: Option<String>,
    /// File to write the report to [default: standard output; a trace's page goes next to the trace].
    #[arg(long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub to: Option<PathBuf>,
    /// The columns of a table: metrics, or all [default: those that decide; all if the terminal has 120 columns].
    #[arg(long, value_name = "METRIC,...", value_delimiter = ',')]
    pub metrics: Vec<String>,
}
