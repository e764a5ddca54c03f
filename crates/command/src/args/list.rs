//! Flags of `list`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::values;

/// Flags of `list`.
#[derive(Args, Clone, Default)]
pub struct ListFlags {
    /// The part to list, such as settings [default: all parts].
    ///
    /// Parts: allocators, settings, workloads, meters, metrics, studies, formats.
    #[arg(value_parser = values::parts(), hide_possible_values = true)]
    pub what: Option<String>,
    /// Extra folder to search for cells first; may be repeated.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub cells: Vec<PathBuf>,
}
