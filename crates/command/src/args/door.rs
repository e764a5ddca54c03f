//! The words and flags of the command without a verb.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::output::OutputFlags;

/// Flags of `allocanary PROCESS`.
#[derive(Args, Clone, Default)]
pub struct DoorFlags {
    /// A process ID, or the name of a process or of its executable. `name:WORD` is a process with the name of a verb.
    #[arg(value_name = "PROCESS")]
    pub process: Option<String>,
    /// A program that does not run yet. The command shows which verb answers what, with this program filled in, and starts nothing.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["process", "tree", "to"])]
    pub command: Vec<String>,
    /// Read the process and all its children, such as forked workers [default: one process].
    #[arg(long, requires = "process", conflicts_with = "to")]
    pub tree: bool,
    /// What is printed.
    #[command(flatten)]
    pub output: OutputFlags,
    /// Also write a file that only you can read: a page with a map of the memory (*.html) [default: none].
    #[arg(long = "output", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "process")]
    pub to: Option<PathBuf>,
}
