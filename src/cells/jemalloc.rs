//! `cell-jemalloc`: a cell that is linked with jemalloc and with no other allocator.

use std::process::ExitCode;

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    allocanary::worker::main(&allocanary::allocators::Jemalloc)
}
