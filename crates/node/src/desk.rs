//! The desk, where the agent's thread and the thread that serves meet. In: a report of each count, and the kubelet's answers. Out: pages,
//! each made at most once for a report, however often it is requested. Neither thread waits for the other: a lock is held only to change a
//! pointer.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use allocanary_rows::fleet::{NodeReport, OtlpDelivery};
use bytes::Bytes;

use crate::metrics;
use crate::names::PodNames;
use crate::pages::{Get, HEALTH, HttpPage};

/// Turns a report into a page for a person.
pub type Show = fn(&NodeReport) -> String;

/// A page, once it was made. Or why it could not be made.
type Made = OnceLock<Result<Bytes, String>>;

/// A report, and the pages that were made of it.
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
    /// A report of the count at this time.
    pub fn new(report: NodeReport, nameless: BTreeSet<String>, counted: Instant) -> PublishedReport {
        PublishedReport { report: Arc::new(report), nameless, counted: Some(counted), ..PublishedReport::default() }
    }
}

/// What the two threads exchange.
#[derive(Debug, Default)]
pub struct Desk {
    shown: Mutex<Arc<PublishedReport>>,
    told: Mutex<Option<Result<PodNames, String>>>,
    sent: Mutex<Option<OtlpDelivery>>,
    certificate: Mutex<Option<String>>,
    #[cfg(feature = "otlp")]
    news: tokio::sync::Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// Publishes a report in place of the earlier one.
    pub fn show(&self, shown: PublishedReport) {
        let shown = Arc::new(shown);
        // Keeps the earlier report, which may be large, so that it is freed after the lock is released.
        let _earlier = std::mem::replace(&mut *lock(&self.shown), shown);
        #[cfg(feature = "otlp")]
        self.news.notify_one();
    }

    /// The report that is published now.
    pub fn shown(&self) -> Arc<PublishedReport> {
        lock(&self.shown).clone()
    }

    /// Stores an answer of the kubelet for the agent's thread.
    pub fn tell(&self, told: Result<PodNames, String>) {
        *lock(&self.told) = Some(told);
    }

    /// Waits until a report is published after the last call. Only one task may wait.
    #[cfg(feature = "otlp")]
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// Stores what was sent so far for the agent's thread.
    #[cfg(feature = "otlp")]
    pub fn send(&self, sent: OtlpDelivery) {
        *lock(&self.sent) = Some(sent);
    }

    /// What was sent so far. `None` if no receiver of metrics was given.
    pub fn sent(&self) -> Option<OtlpDelivery> {
        lock(&self.sent).clone()
    }

    /// Puts down why the files of the certificate cannot be used; `None` if they can.
    pub fn say_of_certificate(&self, problem: Option<String>) {
        *lock(&self.certificate) = problem;
    }

    /// Why the files of the certificate cannot be used.
    pub fn problem_of_certificate(&self) -> Option<String> {
        lock(&self.certificate).clone()
    }

    /// Takes the kubelet's last answer, if one came since the last call.
    pub fn take(&self) -> Option<Result<PodNames, String>> {
        lock(&self.told).take()
    }
}

/// The pages of the agent. `/healthz` fails if the last count is older than `patience`.
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
        HttpPage { path: HEALTH, kind: "text/plain; charset=utf-8", get: Get::Now(health) },
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
