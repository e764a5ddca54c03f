//! `cell-mimalloc`: a cell that is linked with mimalloc and with no other allocator.

use std::process::ExitCode;

allocanary::install!(mimalloc);

fn main() -> ExitCode {
    cell::worker::main(&allocators::Mimalloc)
}
