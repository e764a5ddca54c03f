//! The verbs, one file each. Only here is anything written to the user's terminal.

mod compare;
mod doctor;
mod earlier;
mod here;
mod kept;
mod left;
mod list;
mod measure;
mod plan;
mod progress;
mod report;
mod study;
mod terminal;

use std::process::ExitCode;

use crate::args::{self, Request};
use allocanary_study::error::{Error, Result};

/// Carries out a request. The exit code is 0 for success, 1 if a cell or a gate failed, 130 if the user interrupted; an
/// error is 2.
pub fn carry_out(request: Request) -> Result<ExitCode> {
    match request {
        Request::Here(flags) => here::run(&flags),
        Request::Study(flags) => study::run(&flags),
        Request::Plan(flags) => plan::run(&flags),
        Request::List(flags) => list::run(&flags),
        Request::Report(flags) => report::run(&flags),
        Request::Compare(flags) => compare::run(&flags),
        Request::Doctor(flags) => doctor::run(&flags),
        Request::Completions(shell) => terminal::print(&args::completions(shell)),
        Request::Text { plain, colored } => {
            terminal::print(if terminal::look().color { colored } else { plain }.as_bytes())
        }
        Request::Man => {
            let page = args::manual().map_err(|error| Error::file("the manual page", "writing", error))?;
            terminal::print(&page)
        }
    }
}
