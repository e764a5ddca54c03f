//! The places: at most [`MOST_OPEN`] connections are served at a time, each for its share of time. In: connections that have sent a
//! request. Out: their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::lobby::{MOST_ASKED, MOST_WAITING};
use crate::{Limits, Site, placed};

/// Connections served at a time; more wait in the lobby, and then in the kernel's queue.
pub(crate) const MOST_OPEN: usize = 64;
/// When all places are taken, the oldest connection is closed once it had this time. If more connections wait than there are
/// places, it gets less time, so that no client waits for much longer than this: a crowd of slow readers must not block
/// Prometheus.
const FAIR_SHARE: Duration = Duration::from_secs(1);
/// More connections than this are a crowd. Usually there are three: Prometheus, its replica, and a person. The memory that a crowd needed
/// is given back when the crowd has gone.
const FEW: usize = 3;

/// An open connection: its start, and a handle to end it. The handle is closed once the connection has ended by itself.
struct Open {
    since: Instant,
    end: oneshot::Sender<()>,
}

/// Gives a place to each connection that has sent a request. Returns when the lobby ends.
pub(crate) async fn give<S: Site>(
    mut asked: mpsc::Receiver<TcpStream>,
    crowded: &Notify,
    site: &Arc<S>,
    limits: Limits,
) {
    let room = Arc::new(Semaphore::new(MOST_OPEN));
    let mut open: VecDeque<Open> = VecDeque::with_capacity(MOST_OPEN);
    let crowd = Arc::new(AtomicBool::new(false));
    loop {
        let stream = tokio::select! {
            next = asked.recv() => match next {
                Some(stream) => stream,
                None => return,
            },
            () = crowded.notified() => {
                if open.front().is_some_and(|oldest| oldest.since.elapsed() >= FAIR_SHARE) {
                    cut_oldest(&mut open, site).await;
                }
                continue;
            }
        };
        let permit = permit(&room, &mut open, asked.len(), site).await;
        let (end, ended) = oneshot::channel();
        open.push_back(Open { since: Instant::now(), end });
        if MOST_OPEN - room.available_permits() > FEW {
            crowd.store(true, Ordering::Relaxed);
        }
        let (site, room, crowd) = (site.clone(), room.clone(), crowd.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = served(stream, &site, limits) => {}
                _ = ended => {}
            }
            drop(permit);
            // After a crowd, `crowd_has_gone` is called each time a connection ends and at most `FEW` are left. The crowd is over when one
            // is left, which is that of Prometheus.
            let open = MOST_OPEN - room.available_permits();
            if open <= FEW && crowd.fetch_and(open > 1, Ordering::Relaxed) {
                site.crowd_has_gone();
            }
        });
    }
}

async fn served<S: Site>(stream: TcpStream, site: &Arc<S>, limits: Limits) {
    let served = placed(stream, site.clone(), limits);
    match limits.whole {
        Some(whole) => _ = timeout(whole, served).await,
        None => served.await,
    }
}

/// A permit for one more connection. If none is free, the oldest connection is closed once it has had its fair share of
/// time. `behind` is the number of connections that wait for a permit after this one.
async fn permit<S: Site>(
    room: &Arc<Semaphore>,
    open: &mut VecDeque<Open>,
    behind: usize,
    site: &Arc<S>,
) -> OwnedSemaphorePermit {
    let share = share(behind);
    loop {
        open.retain(|connection| !connection.end.is_closed());
        let oldest = open.front().map_or_else(Instant::now, |connection| connection.since);
        match timeout_at(oldest + share, room.clone().acquire_owned()).await {
            Ok(Ok(permit)) => return permit,
            _ => cut_oldest(open, site).await,
        }
    }
}

/// The share of time of each connection if `behind` connections wait. If the queue is full, the lobby may be full too, of connections that
/// wait for the queue.
fn share(behind: usize) -> Duration {
    let behind = if behind >= MOST_ASKED { MOST_ASKED + MOST_WAITING } else { behind };
    FAIR_SHARE * MOST_OPEN as u32 / behind.max(MOST_OPEN) as u32
}

async fn cut_oldest<S: Site>(open: &mut VecDeque<Open>, site: &Arc<S>) {
    if let Some(oldest) = open.pop_front()
        && oldest.end.send(()).is_ok()
    {
        site.closed(1);
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_wait_the_less_time_each_has() {
        assert_eq!((share(0), share(MOST_OPEN)), (FAIR_SHARE, FAIR_SHARE));
        assert_eq!(share(MOST_OPEN * 2), FAIR_SHARE / 2);
        // All that may wait have had a place after so long: less than the time that a probe of the kubelet has.
        let all = (MOST_ASKED + MOST_WAITING) as u32 / MOST_OPEN as u32;
        assert!(share(MOST_ASKED) * all <= FAIR_SHARE);
    }
}
