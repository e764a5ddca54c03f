//! `cell-mimalloc`: a cell that is linked with mimalloc and with no other allocator.

mod unwinder;

use std::process::ExitCode;

allocanary::install!(mimalloc);

fn main() -> ExitCode {
    allocanary_cell::worker::main(&allocanary::Mimalloc, allocanary_revision::built)
}
