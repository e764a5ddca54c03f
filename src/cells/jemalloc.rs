//! `cell-jemalloc`: a cell that is linked with jemalloc and with no other allocator.

use std::process::ExitCode;

allocanary::install!(jemalloc);

fn main() -> ExitCode {
    cell::worker::main(&allocators::Jemalloc)
}
