//! A runtime as an entry of the table. In: nothing. Out: the type, and what a program's file says.

use std::path::Path;

use super::knob::Knob;
use super::taken::Globals;

/// A runtime with settings of its own.
pub struct RuntimeKind {
    /// Its name: `Go`.
    pub name: &'static str,
    /// Its settings.
    pub knobs: &'static [Knob],
    /// Settings that `run` tries in a program that cannot be preloaded.
    pub tried: &'static [&'static str],
    /// What a program's file says, without links in its path; `None` if this runtime does not run it.
    pub(super) recognise: fn(&Path) -> Option<Traits>,
    /// The word of a command line that makes this runtime ignore its variables.
    pub(super) ignores: fn(&[String]) -> Option<&str>,
    /// Whether a program can change these settings after its start. Such a setting is proven only if the runtime itself was read.
    pub(super) is_changeable: bool,
}

/// What a program's file says of its runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// The version: `1.26.8`; empty if it is not known.
    pub version: String,
    /// Settings that this version does not have, each with what to do.
    pub lacks: Vec<(&'static str, String)>,
    /// The addresses of the variables in which a Go program keeps the values in force.
    pub globals: Option<Globals>,
}

/// The answer of a runtime that never ignores its variables.
pub(super) fn never(_words: &[String]) -> Option<&str> {
    None
}
