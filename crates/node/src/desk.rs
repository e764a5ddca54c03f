//! Where the agent's thread and the thread that serves meet. In: a report of each count, and what the kubelet says. Out: pages, each made
//! at most once of a report, whoever asks how often. Neither thread waits for the other: a lock is held only to change a pointer.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use allocanary_rows::fleet::{NodeReport, OtlpDelivery};
use bytes::Bytes;

use crate::metrics;
use crate::names::PodNames;
use crate::server::{Get, HttpPage};

/// How a report becomes a page for a person.
pub type Show = fn(&NodeReport) -> String;

/// A page that was made, or why not.
type Made = OnceLock<Result<Bytes, String>>;

/// A report, and the pages that somebody has asked for.
#[derive(Debug, Default)]
pub struct PublishedReport {
    /// The report.
    pub report: Arc<NodeReport>,
    /// UIDs of pods and IDs of containers that have no name.
    pub nameless: BTreeSet<String>,
    /// When the processes were counted.
    counted: Option<Instant>,
    metrics: Made,
    json: Made,
    page: Made,
}

impl PublishedReport {
    /// A report of a count at this time.
    pub fn new(report: NodeReport, nameless: BTreeSet<String>, counted: Instant) -> PublishedReport {
        PublishedReport { report: Arc::new(report), nameless, counted: Some(counted), ..PublishedReport::default() }
    }
}

/// The desk.
#[derive(Debug, Default)]
pub struct Desk {
    shown: Mutex<Arc<PublishedReport>>,
    told: Mutex<Option<Result<PodNames, String>>>,
    sent: Mutex<Option<OtlpDelivery>>,
    #[cfg(feature = "otlp")]
    news: tokio::sync::Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// Shows a report from now on.
    pub fn show(&self, shown: PublishedReport) {
        let shown = Arc::new(shown);
        // The earlier one, which may be large, is given up after the lock.
        let _earlier = std::mem::replace(&mut *lock(&self.shown), shown);
        #[cfg(feature = "otlp")]
        self.news.notify_one();
    }

    /// What is shown.
    pub fn shown(&self) -> Arc<PublishedReport> {
        lock(&self.shown).clone()
    }

    /// Puts down what the kubelet says.
    pub fn tell(&self, told: Result<PodNames, String>) {
        *lock(&self.told) = Some(told);
    }

    /// Waits until another report is shown than at the last call. For one task.
    #[cfg(feature = "otlp")]
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// Says what was sent so far.
    #[cfg(feature = "otlp")]
    pub fn send(&self, sent: OtlpDelivery) {
        *lock(&self.sent) = Some(sent);
    }

    /// What was sent so far; `None` if nothing is to be sent.
    pub fn sent(&self) -> Option<OtlpDelivery> {
        lock(&self.sent).clone()
    }

    /// Takes what the kubelet has said since it was last taken.
    pub fn take(&self) -> Option<Result<PodNames, String>> {
        lock(&self.told).take()
    }
}

/// The pages. One without a count for `patience` is not well, and `/healthz` says so.
pub fn pages(desk: &Arc<Desk>, show: Show, patience: Duration) -> Vec<HttpPage> {
    let page = |path, kind, get: fn(&PublishedReport, Show) -> Result<Bytes, String>| {
        let desk = desk.clone();
        HttpPage { path, kind, get: Get::Now(Box::new(move || get(&desk.shown(), show))) }
    };
    let health = {
        let desk = desk.clone();
        Box::new(move || healthy(desk.shown().counted.map(|counted| counted.elapsed()), patience))
    };
    vec![
        page("/metrics", "text/plain; version=0.0.4; charset=utf-8", |shown, _| {
            let make = || metrics::page(shown.report.clone()).map(Bytes::from).map_err(|error| error.to_string());
            shown.metrics.get_or_init(make).clone()
        }),
        page("/report.json", "application/json", |shown, _| {
            let make = || serde_json::to_vec(&*shown.report).map(Bytes::from).map_err(|error| error.to_string());
            shown.json.get_or_init(make).clone()
        }),
        page("/report", "text/html; charset=utf-8", |shown, show| {
            shown.page.get_or_init(|| Ok(Bytes::from(show(&shown.report)))).clone()
        }),
        HttpPage { path: "/healthz", kind: "text/plain; charset=utf-8", get: Get::Now(health) },
    ]
}

fn healthy(age: Option<Duration>, patience: Duration) -> Result<Bytes, String> {
    match age {
        Some(age) if age <= patience => Ok(format!("all processes were counted {} s ago\n", age.as_secs()).into()),
        Some(age) => Err(format!(
            "all processes were counted {} s ago, wanted at most {} s: the agent waits for one of them",
            age.as_secs(),
            patience.as_secs()
        )),
        None => Err("the processes were not counted yet".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static MADE: AtomicU32 = AtomicU32::new(0);

    fn counted(report: &NodeReport) -> String {
        MADE.fetch_add(1, Ordering::Relaxed);
        report.node.clone()
    }

    #[test]
    fn a_page_is_made_once_of_a_report_and_only_if_somebody_asks() {
        let desk = Arc::new(Desk::default());
        let pages = pages(&desk, counted, Duration::from_secs(60));
        let get = |path: &str| match &pages.iter().find(|page| page.path == path).unwrap().get {
            Get::Now(get) => get(),
            Get::Later(_) => panic!("{path} comes at once"),
        };
        let report = |node: &str| NodeReport { node: node.into(), ..NodeReport::default() };
        let show = |node: &str| desk.show(PublishedReport::new(report(node), BTreeSet::new(), Instant::now()));
        show("n1");
        show("n2");
        assert_eq!(MADE.load(Ordering::Relaxed), 0);
        for _ in 0..50 {
            assert_eq!(get("/report").unwrap(), "n2");
        }
        assert_eq!(MADE.load(Ordering::Relaxed), 1);
        show("n3");
        assert_eq!((get("/report").unwrap(), MADE.load(Ordering::Relaxed)), ("n3".into(), 2));
        assert!(get("/report.json").unwrap().starts_with(b"{\"schema\":0,\"node\":\"n3\""));
        assert!(get("/metrics").unwrap().ends_with(b"# EOF\n"));
        assert!(get("/healthz").is_ok());
    }

    #[test]
    fn one_that_does_not_count_is_not_well() {
        let minute = Duration::from_secs(60);
        assert!(healthy(None, minute).is_err() && healthy(Some(minute), minute).is_ok());
        assert!(healthy(Some(minute * 2), minute).unwrap_err().starts_with("all processes were counted 120 s ago"));
    }
}
