//! The canary's command. In: flags. Out: an exit code, and one line for what went wrong.

use std::process::ExitCode;

use kube_canary::error::Error;
use kube_canary::{args, canary};

// The arenas follow the container, not the node; one thread needs one anyway.
#[cfg(any(feature = "system-alloc", not(any(feature = "jemalloc-alloc", feature = "mimalloc-alloc"))))]
allocanary::install!(system, arena_max = 1);
#[cfg(all(feature = "jemalloc-alloc", not(feature = "system-alloc"), not(feature = "mimalloc-alloc")))]
allocanary::install!(jemalloc, narenas = per_cpu(1));
#[cfg(all(feature = "mimalloc-alloc", not(feature = "system-alloc")))]
allocanary::install!(mimalloc);

fn main() -> ExitCode {
    match args::parse().and_then(|options| canary::run(options, |line| eprintln!("kube_canary: {line}"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kube_canary: {error}");
            ExitCode::from(if matches!(error, Error::Input(_)) { 2 } else { 1 })
        }
    }
}
