//! `cell-jemalloc`: a cell that is linked with jemalloc and with no other allocator.

mod unwinder;

use std::process::ExitCode;

allocanary::install!(jemalloc);

fn main() -> ExitCode {
    allocanary_cell::worker::main(&allocanary::Jemalloc, allocanary_revision::built)
}
