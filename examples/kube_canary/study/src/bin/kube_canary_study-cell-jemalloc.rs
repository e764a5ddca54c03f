//! The canary in a cell that is linked with jemalloc and with no other allocator.

use std::process::ExitCode;

allocanary::install!(jemalloc);

fn main() -> ExitCode {
    kube_canary_study::main(&allocanary::Jemalloc)
}
