//! `allocanary glossary`: the words that all outputs use.

use std::process::ExitCode;

use super::terminal;
use crate::args::GlossaryFlags;
use crate::args::examples::GLOSSARY;
use allocanary_rows::error::Result;

/// Prints the words.
pub fn run(_: &GlossaryFlags) -> Result<ExitCode> {
    terminal::print_plain(&format!("{GLOSSARY}\n"))
}
