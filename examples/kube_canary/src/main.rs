//! The canary's command. In: flags. Out: an exit code, and one line for an error.

use std::process::ExitCode;

// One arena, independent of the node's cores, because the canary has one thread.
#[cfg(any(feature = "system-alloc", not(any(feature = "jemalloc-alloc", feature = "mimalloc-alloc"))))]
allocanary::install!(system, arena_max = 1);
#[cfg(all(feature = "jemalloc-alloc", not(feature = "system-alloc"), not(feature = "mimalloc-alloc")))]
allocanary::install!(jemalloc, narenas = per_cpu(1));
#[cfg(all(feature = "mimalloc-alloc", not(feature = "system-alloc")))]
allocanary::install!(mimalloc);

fn main() -> ExitCode {
    ExitCode::from(kube_canary::command(std::env::args_os()))
}
