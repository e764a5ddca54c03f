//! Threads that give their memory back before they wait, in the runtimes that people use. In: a pool of threads and its
//! hook. Out: requests per second, and resident memory when idle, with the hook and without.
//!
//! Each binary is for one runtime. It starts two kinds of processes of itself in turns. With `ALLOCANARY_THREADS_GIVE_BACK=false` the hook
//! does nothing, and with `ALLOCANARY_THREADS_GIVE_BACK=true` it gives memory back.

mod clients;
mod compare;
mod quiet;
mod request;

pub use clients::ask;
pub use compare::main;
pub use quiet::when_quiet;
pub use request::request;

use std::time::Duration;

/// Threads of each pool: more than a small machine has cores, as for a server on a large node.
pub const THREADS: usize = 32;

/// How long a pool is under load.
pub const LOAD: Duration = Duration::from_millis(1500);

/// Requests that are under way at the same time.
pub const CLIENTS: usize = 64;
