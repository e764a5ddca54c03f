//! Flags of `man`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Flags of `man`.
#[derive(Args, Clone, Default)]
pub struct ManFlags {
    /// The verb whose page to print, such as study [default: the command's own page].
    #[arg(hide_possible_values = true)]
    pub verb: Option<String>,
    /// Write the pages of the command and of all verbs to this folder, such as man/man1.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, conflicts_with = "verb")]
    pub out_dir: Option<PathBuf>,
}
