//! A canary as a whole. In: options. Out: a process that probes until it is told to end.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::discovery;
use crate::error::{Error, Result};
use crate::mesh::{Mesh, Shared};
use crate::options::Options;
use crate::prober::Prober;

/// What tasks that wait for the network get after the signal to end.
const FAREWELL: Duration = Duration::from_millis(200);

/// Runs until SIGTERM or SIGINT; `say` takes lines for the person who started it.
///
/// # Errors
/// Where a port is taken, ICMP was asked for and is not permitted, or the system refuses what a canary needs.
pub fn run(options: Options, say: impl Fn(String)) -> Result<()> {
    ignore_broken_pipes();
    let system = |what| move |error| Error::System { what, error };
    // One thread for all of it: a probe is a few microseconds of work, and threads by the core are what this avoids.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system("starting the runtime"))?;
    let outcome = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(system("waiting for SIGTERM"))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(system("waiting for SIGINT"))?;
        let grace = options.grace.as_nanos() as u64;
        let shared = Shared::new(Mesh::new(options.bounds.clone(), grace, options.most_probed, &options.node));
        let prober = Prober::open(&options, shared.clone())?;
        if let Some(why) = prober.fallback() {
            say(format!("probing by UDP echo, since nothing else was asked for: {why}"));
        }
        discovery::start(&options, shared)?;
        // A thousand peers of the command line are in the mesh now.
        drop(options);
        tokio::select! {
            ended = prober.run() => ended,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    });
    runtime.shutdown_timeout(FAREWELL);
    outcome
}

/// A client that goes away in the middle of a page must not end us. Rust's own start does this; a C main's does not.
fn ignore_broken_pipes() {
    // SAFETY: sets a disposition that runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}
