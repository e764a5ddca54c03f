//! Flags for the output of a verb. In: what the user typed. Out: plain values.

use clap::Args;

/// Flags of every verb that answers.
#[derive(Args, Clone, Default)]
pub struct OutputFlags {
    /// Print the answer in at most ten lines [default: off].
    #[arg(long, conflicts_with = "json")]
    pub short: bool,
    /// Print JSON, for a script (docs/json.md has its fields) [default: off].
    #[arg(long)]
    pub json: bool,
}

/// Flags of the verbs that print tables.
#[derive(Args, Clone, Default)]
pub struct TableFlags {
    /// What is printed.
    #[command(flatten)]
    pub output: OutputFlags,
    /// The columns of the tables: metrics, or all [default: those that decide; all if the terminal has 120 columns].
    #[arg(long, value_name = "METRIC,...", value_delimiter = ',', conflicts_with_all = ["short", "json"])]
    pub metrics: Vec<String>,
}
