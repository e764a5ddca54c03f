//! A cell whose jemalloc has one arena for each processor that the container allows. It differs from the study's own cell only in this
//! setting. `table.sh` in this folder runs it under several quotas.

use std::process::ExitCode;

allocanary::install!(jemalloc, narenas = per_cpu(1));

fn main() -> ExitCode {
    allocanary_cell::worker::main(&allocanary::Jemalloc, allocanary_revision::built)
}
