//! Runs the user's program as a cell: starts it with an allocator preloaded, watches it from outside, and ends it with all processes that
//! it has started. In: a cell with a program. Out: what a cell's answer has, or a failure.

// This crate returns numbers and texts. Only the command writes to a terminal.

mod around;
mod build;
pub mod cause;
mod context;
mod divided;
mod environment;
pub mod figures;
mod filled;
mod given;
mod group;
pub mod huge_pages;
mod judged;
mod launcher;
mod marks;
mod pipes;
mod proof;
mod ready;
mod residents;
mod run;
mod running;
pub mod runtimes;
mod schedule;
mod tree;
mod values;
mod variables;
mod watch;

pub use around::signal_name;
pub use context::{RunContext, Unspent};
pub use divided::columns;
pub use figures::FigurePattern;
pub use group::ContainerLimits;
pub use launcher::{Launcher, Other, ProgramRecorder, Recorded};
pub use ready::Ready;
pub use residents::{Interrupted, Residents, residents};
pub use run::{Ran, SETTLE, end_all};
pub use values::{check, limits};

use run::fail;
