//! The checks. A new one is a file here and a line in [`ALL`].

mod anatomy;
mod busy;
mod crowd;
mod divided;
mod give_back;
mod growing;
mod idle_python;
mod idle_threads;
mod purge;
mod replay;
mod scrapes;
mod small_program;
mod waits;

use crate::check::Check;

/// Every check, in the order in which they run.
pub const ALL: &[&Check] = &[
    &idle_threads::CHECK,
    &idle_python::CHECK,
    &small_program::RESIDENT,
    &small_program::ANONYMOUS,
    &purge::CHECK,
    &anatomy::CHECK,
    &divided::CHECK,
    &replay::CHECK,
    &scrapes::CHECK,
    &crowd::CHECK,
    &give_back::CHECK,
    &growing::CHECK,
    &busy::CHECK,
    &waits::CHECK,
];
