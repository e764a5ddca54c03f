//! A canary as a whole. In: options. Out: a process that probes until it is told to end.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Error, Result};
use crate::mesh::{Mesh, Shared};
use crate::options::Options;
use crate::prober::Prober;
use crate::say::say;
use crate::web::{Facts, Server};
use crate::{args, discovery, settle};

/// The time that tasks which wait for the network have after the signal to end.
const FAREWELL: Duration = Duration::from_millis(200);

/// The command: reads `arguments` (the first is the program's name), runs until SIGTERM or SIGINT, and returns the exit
/// code. An error is one line on standard error.
pub fn command(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    match args::parse(arguments).and_then(|options| run(options, |line| say(&line))) {
        Ok(()) => 0,
        Err(error) => {
            say(&error.to_string());
            if matches!(error, Error::Input(_)) { 2 } else { 1 }
        }
    }
}

/// Runs until SIGTERM or SIGINT; `say` takes lines for the person who started it.
///
/// # Errors
/// If a port is taken, if ICMP was requested and is not permitted, or if the system refuses what a canary needs.
pub fn run(options: Options, say: impl Fn(String)) -> Result<()> {
    run_until(options, say, |address| drop(tokio::spawn(settle::down(address))), signals())
}

/// Runs until `stop` completes. Calls `ready` with the address of the web server.
///
/// # Errors
/// As [`run`].
pub fn run_until(
    mut options: Options,
    say: impl Fn(String),
    ready: impl FnOnce(SocketAddr),
    stop: impl Future<Output = Result<()>>,
) -> Result<()> {
    ignore_broken_pipes();
    // One thread does everything: a probe is a few microseconds of work, and a thread for each core would use memory for each core.
    let runtime = Builder::new_current_thread().enable_all().build().map_err(system("starting the runtime"))?;
    let outcome = runtime.block_on(async {
        let grace = options.grace.as_nanos() as u64;
        let mesh = Shared::new(Mesh::new(options.bounds.clone(), grace, options.most_probed, &options.ring_name()));
        let server = Server::bind(&options, mesh.clone(), Facts::of_this_build())?;
        let address = server.address().map_err(system("asking for the web server's port"))?;
        options.peer_port = options.port_of_peers(address.port());
        let prober = Prober::open(&options, mesh.clone())?;
        if let Some(why) = prober.fallback() {
            say(format!("probing by UDP echo, since nothing else was asked for: {why}"));
        }
        let sources = discovery::start(&options, &mesh)?;
        if options.listen.port() == 0 {
            say(format!("listening on http://{address}/"));
        }
        ready(address);
        // Frees the peers of the command line, perhaps a thousand: the mesh has its own copy now.
        drop(options);
        // A separate task, so that its timer, the most frequent event, wakes nothing else.
        let prober = tokio::spawn(prober.run());
        tokio::select! {
            ended = prober => ended.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic())),
            never = sources.follow() => match never {},
            ended = server.run() => ended,
            ended = stop => ended,
        }
    });
    runtime.shutdown_timeout(FAREWELL);
    outcome
}

async fn signals() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).map_err(system("waiting for SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system("waiting for SIGINT"))?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::System { what, error }
}

/// A client that closes in the middle of a page must not end the process (SIGPIPE). Rust's start code does this; a
/// `main` of C does not.
fn ignore_broken_pipes() {
    // SAFETY: sets a disposition that runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}
