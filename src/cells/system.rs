//! `cell-system`: a cell that is linked with the system's malloc and with no other allocator.

use std::process::ExitCode;

#[global_allocator]
static GLOBAL: std::alloc::System = std::alloc::System;

fn main() -> ExitCode {
    allocanary::worker::main(&allocanary::allocators::System)
}
