//! `cell-system`: a cell that is linked with the system's malloc and with no other allocator.

use std::process::ExitCode;

allocanary::install!(system);

fn main() -> ExitCode {
    cell::worker::main(&allocators::System)
}
