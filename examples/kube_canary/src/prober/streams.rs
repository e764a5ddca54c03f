//! Probes that need a connection: TCP and HTTP. In: peers to probe. Out: marks in books. Each probe has one short task,
//! and the number of tasks is limited.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::tcp::{self, Took};
use super::{channel, http};
use crate::book::Answer;
use crate::clock;
use crate::mesh::{Mesh, PeerId, Shared};
use crate::protocol::Protocol;

/// The maximum number of connections at a time. With an interval and a timeout of one second, this many peers may be
/// dead before a probe is skipped. A connection costs some 2 KiB while it lasts.
const AT_ONCE: usize = 128;
/// If a timer is late by at least this much, the process was stopped.
const STOPPED: Duration = Duration::from_millis(250);

/// Starts connections.
pub struct Streams {
    permits: Arc<Semaphore>,
    shared: Shared,
    port: u16,
    timeout: Duration,
}

impl Streams {
    /// Starts connections to this port of each peer.
    pub fn new(shared: Shared, port: u16, timeout: Duration) -> Self {
        Streams { permits: Arc::new(Semaphore::new(AT_ONCE)), shared, port, timeout }
    }

    /// Starts one probe, or skips it if too many are in progress. `mesh` is the locked mesh.
    pub fn start(&self, mesh: &mut Mesh, id: PeerId, protocol: Protocol, address: IpAddr) {
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            mesh.tallies.probes_skipped += 1;
            return;
        };
        let Some(book) = mesh.book(id, protocol) else { return };
        let sequence = book.send(clock::now());
        let (shared, timeout, to) = (self.shared.clone(), self.timeout, SocketAddr::new(address, self.port));
        tokio::spawn(async move {
            let outcome = match protocol {
                Protocol::Http => within(timeout, http::probe(to)).await,
                _ => within(timeout, tcp::probe(to)).await,
            };
            if let Some(book) = shared.lock().book(id, protocol) {
                match outcome {
                    Ok(took) => {
                        let answer = book.answer(sequence, took.whole.as_nanos() as u64, None);
                        if answer == Answer::Reply {
                            book.connected(took.connect.as_nanos() as u64);
                        }
                    }
                    Err(error) => drop(book.lost(sequence, channel::loss(&error))),
                }
            }
            drop(permit);
        });
    }
}

/// The outcome by the deadline. If the process was stopped past the deadline, the probe gets the whole time again, and its measured time
/// does not include the stop.
async fn within(limit: Duration, probe: impl Future<Output = io::Result<Took>>) -> io::Result<Took> {
    tokio::pin!(probe);
    let deadline = Instant::now() + limit;
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    if let Ok(outcome) = timeout_at(deadline, &mut probe).await {
        return outcome;
    }
    let stopped = deadline.elapsed();
    if stopped < STOPPED {
        return Err(late());
    }
    let took = timeout(limit, probe).await.map_err(|_| late())??;
    // A time that the kernel measured, or that is shorter than the stop, does not contain the stop.
    let has_stop = took.looked && took.whole > limit && took.whole >= stopped;
    let whole = if has_stop { took.whole - stopped } else { took.whole };
    Ok(Took { connect: took.connect.min(whole), whole, ..took })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Loss;

    #[test]
    fn a_stop_is_taken_from_what_has_it_and_from_nothing_else() {
        const LIMIT: Duration = Duration::from_millis(10);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // The result of a probe that is not ready before its deadline, in a process that is stopped until long after
        // it.
        let whole = |whole: Duration, looked| {
            let probe = async {
                tokio::time::sleep(2 * LIMIT).await;
                tokio::task::yield_now().await;
                Ok(Took { connect: whole, whole, looked })
            };
            let stop = async { std::thread::sleep(STOPPED + 10 * LIMIT) };
            let took = runtime.block_on(async { tokio::join!(biased; within(LIMIT, probe), stop).0 }).unwrap();
            assert_eq!(took.connect, took.whole);
            took.whole
        };
        let hour = Duration::from_secs(3600);
        for (timed, looked) in
            [(LIMIT / 2, true), (LIMIT / 2, false), (2 * LIMIT, true), (2 * LIMIT, false), (hour, false)]
        {
            assert_eq!(whole(timed, looked), timed, "{looked}");
        }
        let left = whole(hour, true);
        assert!(Duration::ZERO < left && left <= hour - STOPPED, "{left:?}");
    }

    #[test]
    fn what_a_failed_connection_counts_as() {
        let loss = |kind| channel::loss(&io::Error::from(kind));
        assert_eq!(loss(io::ErrorKind::ConnectionRefused), Loss::Unreachable);
        assert_eq!(loss(io::ErrorKind::HostUnreachable), Loss::Unreachable);
        assert_eq!(loss(io::ErrorKind::TimedOut), Loss::Timeout);
        assert_eq!(channel::loss(&io::Error::from_raw_os_error(libc::EMFILE)), Loss::Send);
        assert_eq!(channel::loss(&io::Error::from_raw_os_error(libc::EPERM)), Loss::Send);
    }
}
