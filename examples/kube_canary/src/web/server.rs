//! Listens and serves. In: connections of any client. Out: answers of the site.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use allocanary_server::{Limits, listen, serve};
use prometheus_client::registry::Registry;
use tokio::runtime::Runtime;
use tokio::task::JoinError;

use super::facts::Facts;
use super::gather::Gatherer;
use super::json::Identity;
use super::labels::Labels;
use super::metrics::MeshCollector;
use super::pages::Pages;
use super::quiet::Quiet;
use super::routes::Site;
use super::series::Series;
use crate::clock;
use crate::error::{Error, Result};
use crate::mesh::Shared;
use crate::options::Options;

/// Prometheus and other canaries may keep their connections, as long as they read.
const LIMITS: Limits = Limits { head: Duration::from_secs(10), whole: None, keeps_alive: true };

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
    /// Opens the port, and allocates all memory that pages need. A port that is taken is an error.
    pub fn bind(options: &Options, mesh: Shared, facts: Facts) -> Result<Self> {
        let port = |error| Error::Port { what: "listening for HTTP on", address: options.listen, error };
        let listener = listen(options.listen).map_err(port)?;
        let peer_port = options.port_of_peers(listener.local_addr().map_err(port)?.port());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(MeshCollector::new(mesh.clone(), facts.clone(), &options.node)));
        // The statistics are added up during the scrape itself. For one arena this takes microseconds, while a thread for it would need a
        // tenth of our memory.
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
            return serve(listener, site, LIMITS).await.map_err(waiting);
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
        match runtime.0.as_ref().map(|runtime| runtime.spawn(serve(listener, site, LIMITS))) {
            Some(serving) => joined(serving.await),
            None => Ok(()),
        }
    }
}

fn waiting(error: std::io::Error) -> Error {
    Error::System { what: "waiting for HTTP connections", error }
}

/// The outcome of a task: a server that has panicked must not look like one that was told to end.
fn joined(outcome: std::result::Result<std::io::Result<()>, JoinError>) -> Result<()> {
    match outcome.map_err(JoinError::try_into_panic) {
        Ok(outcome) => outcome.map_err(waiting),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // Only this server has the runtime, so nothing else can end it.
        Err(Err(cancelled)) => Err(Error::System { what: "serving HTTP", error: cancelled.into() }),
    }
}

/// A runtime that may be dropped within another runtime.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
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
