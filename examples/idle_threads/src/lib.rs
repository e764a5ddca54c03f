//! Threads that give their memory back before they wait, in the runtimes that people use. In: a pool of threads and its
//! hook. Out: requests per second, and resident memory when idle, with the hook and without.
//!
//! Each binary is one runtime. It runs itself as two kinds of processes in turns: with `ALLOCANARY_THREADS_GIVE_BACK=false`, in which
//! the hook does nothing, and with `ALLOCANARY_THREADS_GIVE_BACK=true`.

mod clients;
mod compare;
mod quiet;
mod request;

pub use clients::ask;
pub use compare::main;
pub use quiet::when_quiet;
pub use request::request;

use std::time::Duration;

/// Threads of each pool: some more than a small machine has cores, as a server on a large node would have.
pub const THREADS: usize = 32;

/// How long a pool is under load.
pub const LOAD: Duration = Duration::from_millis(1500);

/// Requests that are under way at the same time.
pub const CLIENTS: usize = 64;
