//! `cell-mimalloc`: a cell that is linked with mimalloc and with no other allocator.

use std::process::ExitCode;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    allocanary::worker::main(&allocanary::allocators::Mimalloc)
}
