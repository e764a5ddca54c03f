//! Listens and serves. In: connections of any client. Out: answers, for at most [`MOST_OPEN`] connections at a time that have sent a
//! whole request, each with a limit of time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, timeout_at};

use super::connection::Wire;
use super::facts::Facts;
use super::gather::Gatherer;
use super::json::Identity;
use super::labels::Labels;
use super::lobby::{Lobby, MOST_ASKED};
use super::metrics::MeshCollector;
use super::pages::Pages;
use super::quiet::Quiet;
use super::routes::Site;
use super::series::Series;
use crate::clock;
use crate::error::{Error, Result};
use crate::mesh::Shared;
use crate::options::Options;

/// Connections served at a time; more wait in the [`Lobby`], and then in the kernel's queue.
const MOST_OPEN: usize = 64;
/// When all places are taken, the oldest connection is closed once it had this time. If more connections wait than there are
/// places, it gets less time, so that no client waits for much longer than this: a crowd of slow readers must not block
/// Prometheus.
const FAIR_SHARE: Duration = Duration::from_secs(1);
/// Up to this many connections are not a crowd: Prometheus, its replica, and a person. The memory that a crowd needed
/// is given back when the crowd has gone.
const FEW: usize = 3;
/// The connections that wait in the kernel's queue.
const BACKLOG: i32 = 1024;
/// The size of a connection's send buffer; the kernel counts twice this size. The buffer is charged to the container's
/// memory, and without a limit it grows to megabytes for each connection.
const SEND_BUFFER: usize = 64 * 1024;
/// The time for the head of a request, and for the next request on a kept connection.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// The most bytes of a head. hyper answers 431 to more, and takes no smaller buffer.
const MOST_HEAD: usize = 8192;
/// The pause after the system refused a connection for lack of file descriptors or memory.
const BACK_OFF: Duration = Duration::from_millis(100);

/// A web server that has its port.
#[derive(Debug)]
pub struct Server {
    listener: StdListener,
    site: Arc<Site>,
    threads: usize,
    /// Whether waiting threads give their memory back.
    give_back: bool,
}

impl Server {
    /// Takes the port, and all the memory that pages need. A port that is taken is an error.
    pub fn bind(options: &Options, mesh: Shared, facts: Facts) -> Result<Self> {
        let port = |error| Error::Port { what: "listening for HTTP on", address: options.listen, error };
        let listener = listen(options.listen).map_err(port)?;
        let peer_port = options.port_of_peers(listener.local_addr().map_err(port)?.port());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(MeshCollector::new(mesh.clone(), facts.clone(), &options.node)));
        // The scrape itself adds up the statistics: one arena takes microseconds, and a thread would need a tenth of
        // our memory.
        let allocator = allocanary::metrics::AllocatorCollector::new().with_refresh(Duration::ZERO);
        registry.register_collector(Box::new(allocator));
        let node = options.node.clone();
        let gatherer = Gatherer::new(mesh.clone(), node.clone(), options.own_addresses.clone(), peer_port);
        let site = Site {
            mesh,
            registry,
            pages: Pages::new(options.http_threads),
            gatherer: Arc::new(gatherer),
            identity: Identity { node, facts, interval_seconds: options.interval.as_secs_f64() },
            interval: options.interval,
            series: match (options.all_series, options.quantiles) {
                (false, _) => Series::Basic,
                (true, false) => Series::Histograms,
                (true, true) => Series::Quantiles,
            },
            native: options.native,
            labels: Mutex::new(Labels::new(options.label_addresses)),
            said_too_large: AtomicBool::new(false),
            quiet: Quiet::default(),
            started_ns: clock::now(),
        };
        site.warm();
        let (threads, give_back) = (options.http_threads, options.threads_give_back);
        Ok(Server { listener, site: Arc::new(site), threads, give_back })
    }

    /// The address at which it listens, with the port that the system chose if the option is 0.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is dropped. Ends only if the listening socket fails.
    pub async fn run(self) -> Result<()> {
        let Server { listener, site, threads, give_back } = self;
        if threads == 0 {
            return serve(listener, site).await;
        }
        let system = |error| Error::System { what: "starting the threads of the web server", error };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("http")
            .enable_all()
            .build()
            .map_err(system)?;
        if give_back {
            let site = site.clone();
            let thread_gives_back = || drop(allocanary::tuning::thread_idle());
            runtime.spawn(async move { site.quiet.follow(threads, thread_gives_back).await });
        }
        let runtime = Threads(Some(runtime));
        match runtime.0.as_ref().map(|runtime| runtime.spawn(serve(listener, site))) {
            Some(serving) => joined(serving.await),
            None => Ok(()),
        }
    }
}

/// The outcome of a task: a server that has panicked must not look like one that was told to end.
fn joined(outcome: std::result::Result<Result<()>, JoinError>) -> Result<()> {
    match outcome.map_err(JoinError::try_into_panic) {
        Ok(outcome) => outcome,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // Only this server has the runtime, so nothing else can end it.
        Err(Err(cancelled)) => Err(Error::System { what: "serving HTTP", error: cancelled.into() }),
    }
}

/// A runtime that may be dropped within another.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The default is `[::]`. A host without IPv6 does not have it; then the server listens on all IPv4 addresses.
fn listen(address: SocketAddr) -> std::io::Result<StdListener> {
    let no_ipv6 =
        |error: &std::io::Error| matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL));
    match listen_at(address) {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && no_ipv6(&error) => {
            listen_at((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        outcome => outcome,
    }
}

fn listen_at(address: SocketAddr) -> std::io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `[::]` takes IPv4 as well, whatever the node's default is.
        socket.set_only_v6(false)?;
    }
    // Connections inherit the buffer size of the listening socket.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// An open connection: its start, and a handle to end it. The handle is closed once the connection has ended.
struct Open {
    since: Instant,
    end: oneshot::Sender<()>,
}

async fn serve(listener: StdListener, site: Arc<Site>) -> Result<()> {
    let system = |error| Error::System { what: "waiting for HTTP connections", error };
    let listener = TcpListener::from_std(listener).map_err(system)?;
    let (door, asked) = mpsc::channel(MOST_ASKED);
    let crowded = Notify::new();
    tokio::select! {
        never = admit(listener, Lobby::new(door, HEAD_WITHIN), &crowded, &site) => match never {},
        () = place(asked, &crowded, &site) => Ok(()),
    }
}

/// Accepts connections for ever. Each waits in the lobby until it has sent a request. If the system has no descriptor
/// for one more, the oldest connection without a request is closed; if all have sent one, `crowded` is notified.
async fn admit(listener: TcpListener, mut lobby: Lobby, crowded: &Notify, site: &Site) -> Infallible {
    // Whether a connection was closed for lack of descriptors since the last one was accepted.
    let mut has_cut = false;
    loop {
        let cut = lobby.make_room().await;
        if cut > 0 {
            site.mesh.lock().tallies.connections_refused += cut;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                has_cut = false;
                lobby.enter(stream);
                // Lets the tasks of new and of closed connections run before the next one is accepted: there may be
                // thousands.
                tokio::task::yield_now().await;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => {
                // Closing a connection frees one descriptor. If this does not help, because the whole system has none left,
                // closing another one would not help either.
                if !std::mem::replace(&mut has_cut, true) {
                    match lobby.cut_oldest() {
                        true => site.mesh.lock().tallies.connections_refused += 1,
                        false => crowded.notify_one(),
                    }
                }
                sleep(BACK_OFF).await;
            }
        }
    }
}

/// Gives a place to each connection that has sent a request.
async fn place(mut asked: mpsc::Receiver<TcpStream>, crowded: &Notify, site: &Arc<Site>) {
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
                () = connection(stream, site) => {}
                _ = ended => {}
            }
            drop(permit);
            // When only a few connections are left, memory is given back after each that ends. The crowd has ended when one
            // is left, which is Prometheus'.
            let open = MOST_OPEN - room.available_permits();
            if open <= FEW && crowd.fetch_and(open > 1, Ordering::Relaxed) {
                let _ = allocanary::tuning::purge();
            }
        });
    }
}

/// A permit for one more connection. If none is free, the oldest connection is closed once it has had its fair share of
/// time. `behind` is the number of connections that wait for a permit after this one.
async fn permit(room: &Arc<Semaphore>, open: &mut VecDeque<Open>, behind: usize, site: &Site) -> OwnedSemaphorePermit {
    let share = FAIR_SHARE * MOST_OPEN as u32 / (behind.max(MOST_OPEN) as u32);
    loop {
        open.retain(|connection| !connection.end.is_closed());
        let oldest = open.front().map_or_else(Instant::now, |connection| connection.since);
        match timeout_at(oldest + share, room.clone().acquire_owned()).await {
            Ok(Ok(permit)) => return permit,
            _ => cut_oldest(open, site).await,
        }
    }
}

async fn cut_oldest(open: &mut VecDeque<Open>, site: &Site) {
    if let Some(oldest) = open.pop_front()
        && oldest.end.send(()).is_ok()
    {
        site.mesh.lock().tallies.connections_refused += 1;
        tokio::task::yield_now().await;
    }
}

/// The client closed before it was accepted; the next connection may be fine.
fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

async fn connection(stream: TcpStream, site: Arc<Site>) {
    // A page is written as a whole, so waiting for more data gains nothing.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(site.answer(request).await) }
    });
    // An error of one client's connection concerns only this client.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(MOST_HEAD)
        .serve_connection(TokioIo::new(Wire::new(stream)), service)
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_panicked_is_no_server_that_ended() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outcome = runtime.block_on(async { tokio::spawn(async { panic!("as a test wants it") }).await });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| joined(outcome))).unwrap_err();
        assert_eq!(caught.downcast_ref::<&str>(), Some(&"as a test wants it"));
        let cancelled = runtime.block_on(async {
            let task = tokio::spawn(std::future::pending());
            task.abort();
            task.await
        });
        assert!(joined(cancelled).is_err());
    }
}

#[cfg(test)]
#[path = "requests_test.rs"]
mod requests;
