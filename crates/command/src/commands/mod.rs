//! The verbs, one file each, and what they share: `measure`, `terminal`, `progress`, `left`. Only here is anything written to the user's terminal.

mod build;
mod cells;
mod compare;
mod doctor;
mod give_back;
mod heap;
mod here;
mod left;
mod list;
mod man;
mod measure;
mod named;
mod output;
mod plan;
mod preload;
mod production;
mod progress;
mod reader;
mod record;
mod replay;
mod report;
mod run;
mod study;
mod terminal;
mod trace;
mod tune;
mod upgrade;
mod who;

pub use cells::built_with;
pub use reader::serve_if_asked;
pub use terminal::tell;

use std::process::ExitCode;

use crate::args::{self, Task};
use allocanary_error::Result;

/// Carries out a request. The exit code is 0 for success, 1 if a cell or a gate failed, 130 if the user interrupted; an
/// error is 2.
pub fn carry_out(request: Task) -> Result<ExitCode> {
    match request {
        Task::Here(flags) => here::run(&flags),
        Task::Study(flags) => study::run(&flags),
        Task::Run(flags) => run::run(&flags),
        Task::Upgrade(flags) => upgrade::run(&flags),
        Task::Plan(flags) => plan::run(&flags),
        Task::List(flags) => list::run(&flags),
        Task::Report(flags) => report::run(&flags),
        Task::Compare(flags) => compare::run(&flags),
        Task::Doctor(flags) => doctor::run(&flags),
        Task::Heap(flags) => heap::run(&flags),
        Task::GiveBack(flags) => give_back::run(&flags),
        Task::Preload(flags) => preload::run(&flags),
        Task::Build(flags) => build::run(&flags),
        Task::Record(flags) => record::run(&flags),
        Task::Trace(flags) => trace::run(&flags),
        Task::Who(flags) => who::run(&flags),
        Task::Replay(flags) => replay::run(&flags),
        Task::Tune(flags) => tune::run(&flags),
        Task::Glossary => terminal::print_plain(&format!("{}\n", args::GLOSSARY)),
        Task::Completions(shell) => terminal::print(&args::completions(shell)),
        Task::Text { plain, colored } => {
            terminal::print(if terminal::look().color { colored } else { plain }.as_bytes())
        }
        Task::Man(flags) => man::run(&flags),
    }
}
