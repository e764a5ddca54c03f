//! A question about the call sites of a process, and its answer. In: flags. Out: types that a child reads and writes.

use serde::{Deserialize, Serialize};

use crate::commands::form::Form;

/// A question about a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WhoQuestion {
    pub(super) by: String,
    pub(super) is_not_folded: bool,
    pub(super) skip: Vec<String>,
    pub(super) sort: Option<String>,
    pub(super) top: Option<usize>,
    pub(super) form: Form,
    /// An earlier answer: its name, and its text.
    pub(super) against: Option<(String, String)>,
    /// The format of a file for another tool.
    pub(super) format: Option<String>,
    /// Whether the child reads only tables of symbols, and no debug information.
    pub(super) is_brief: bool,
}

/// What the child answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Written {
    /// What is printed.
    pub(super) text: String,
    /// The bytes of the file.
    pub(super) file: Option<Vec<u8>>,
}
