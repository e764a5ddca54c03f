//! The canary in a cell that is linked with mimalloc and with no other allocator.

use std::process::ExitCode;

allocanary::install!(mimalloc);

fn main() -> ExitCode {
    kube_canary_study::main(&allocanary::Mimalloc)
}
