//! The canary in a cell that is linked with system and with no other allocator.

use std::process::ExitCode;

allocanary::install!(system);

fn main() -> ExitCode {
    kube_canary_study::main(&allocanary::System)
}
