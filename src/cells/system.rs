//! `cell-system`: a cell that is linked with the system's malloc and with no other allocator.

mod unwinder;

use std::process::ExitCode;

allocanary::install!(system);

fn main() -> ExitCode {
    allocanary_cell::worker::main(&allocanary::System, allocanary_revision::built)
}
