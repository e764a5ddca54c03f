//! A verb as an entry of the table. In: nothing. Out: the types.

use std::process::ExitCode;

use clap::{ArgMatches, Command};

use allocanary_rows::error::Result;

/// What a verb is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Look,
    Measure,
    Ship,
    /// Only `--help` lists it.
    More,
}

impl Group {
    pub(super) const SHOWN: [Group; 3] = [Group::Look, Group::Measure, Group::Ship];

    pub(super) fn heading(self) -> &'static str {
        match self {
            Group::Look => "Look at a process",
            Group::Measure => "Measure before you deploy",
            Group::Ship => "Ship",
            Group::More => "More",
        }
    }
}

/// A verb.
pub(super) struct Verb {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// Where the first help lists it.
    pub(super) group: Group,
    /// What it does, in one sentence.
    pub(super) about: &'static str,
    /// The flags that its first help shows. `--help` shows all.
    pub(super) first: &'static [&'static str],
    /// The end of its help: defaults and examples.
    pub(super) examples: fn() -> String,
    /// Adds its flags to a command.
    pub(super) takes: fn(Command) -> Command,
    /// Carries it out.
    pub(super) run: fn(&ArgMatches) -> Result<ExitCode>,
}
