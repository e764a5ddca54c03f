//! Runs the agent. In: options, and who reads processes. Out: pages that are served until the process ends.
//!
//! Two threads: this one counts and has heaps read, the other one serves and asks the kubelet.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use allocanary_fleet::{Host, Report};
use allocanary_kernel::clocks::thread_cpu_time;
use allocanary_kernel::sys::{read_whole, usage};

use crate::agent::Agent;
use crate::client::{Trust, fetch, runtime};
use crate::look::Look;
use crate::metrics;
use crate::names::Names;
use crate::schedule::Step;
use crate::server::{Page, serve};
use crate::stat::Status;
use crate::world::Kernel;

/// What the user says.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the node.
    pub node: String,
    /// How often all processes are counted.
    pub every: Duration,
    /// The part of a core that may be used: 0.01.
    pub share: f64,
    /// The kubelet's URL, if it is asked for names: `https://10.0.0.1:10250/pods`.
    pub kubelet: Option<(String, Trust)>,
}

/// How a report becomes a page for a person.
pub type Show = fn(&Report) -> String;

/// How long the names of pods are good. A pod without one has them asked again, but not more often than each [`AGAIN`].
const NAMES: Duration = Duration::from_secs(600);
const AGAIN: Duration = Duration::from_secs(15);
/// With nothing to read for so long the child ends, and its memory is given back.
const REST: Duration = Duration::from_secs(5);

type Shared = Arc<Mutex<Agent<Kernel>>>;

fn lock(agent: &Shared) -> MutexGuard<'_, Agent<Kernel>> {
    agent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine.
pub fn host() -> Host {
    let this = allocanary_kernel::host::Host::this();
    Host { cores: this.cores, thp: this.thp, page: this.page_bytes, arch: std::env::consts::ARCH.into() }
}

fn resident() -> u64 {
    let status = read_whole("/proc/self/status").unwrap_or_default();
    Status::parse(&status).map_or(0, |status| status.resident)
}

fn spent() -> Duration {
    let own = usage();
    Duration::from_micros(own.user_us + own.system_us)
}

/// Counts once, reads every heap that is worth it, and returns the report. The budget does not count here: somebody waits.
pub fn once(options: &Options, look: &mut dyn Look) -> Result<Report, String> {
    let mut agent = Agent::new(Kernel::new(), options.node.clone(), host(), options.every, options.share);
    let begun = Instant::now();
    if let Some((url, trust)) = &options.kubelet {
        let names = runtime()?.block_on(fetch(url, trust)).and_then(|text| Names::parse(&text));
        agent.named(names?);
    }
    agent.count(begun.elapsed());
    agent.count_cost(spent());
    while let Some((key, wanted)) = agent.next(begun.elapsed()).and_then(|at| agent.wanted(at)) {
        let start = Instant::now();
        let seen = look.look(&wanted);
        agent.saw(key, begun.elapsed(), start.elapsed(), seen);
    }
    agent.step(begun.elapsed(), spent());
    Ok(agent.report(resident()))
}

/// Runs until the process ends. The error is that of the start.
pub fn run(options: Options, listener: TcpListener, look: &mut dyn Look, show: Show) -> Result<(), String> {
    let mut agent = Agent::new(Kernel::new(), options.node.clone(), host(), options.every, options.share);
    // Who asks first gets rows, too.
    let before = thread_cpu_time();
    agent.count(Duration::ZERO);
    agent.count_cost(thread_cpu_time().saturating_sub(before));
    let agent: Shared = Arc::new(Mutex::new(agent));
    let runtime = runtime()?;
    let pages = Arc::new(pages(&agent, show));
    let asked = agent.clone();
    let server = thread::Builder::new().name("http".into()).spawn(move || {
        runtime.block_on(async {
            if let Some((url, trust)) = options.kubelet {
                tokio::spawn(ask_names(url, trust, asked));
            }
            serve(listener, pages).await
        })
    });
    server.map_err(|error| format!("starting the server: {error}"))?;
    work(&agent, look);
    Ok(())
}

fn pages(agent: &Shared, show: Show) -> Vec<Page> {
    let report = |agent: &Shared| {
        let agent = agent.clone();
        move || lock(&agent).report(resident())
    };
    let [metrics, json, page] = [report(agent), report(agent), report(agent)];
    let text = |error: std::fmt::Error| error.to_string();
    vec![
        Page {
            path: "/metrics",
            kind: "text/plain; version=0.0.4; charset=utf-8",
            make: Box::new(move || metrics::page(Arc::new(metrics())).map_err(text)),
        },
        Page {
            path: "/report.json",
            kind: "application/json",
            make: Box::new(move || serde_json::to_string(&json()).map_err(|error| error.to_string())),
        },
        Page { path: "/report", kind: "text/html; charset=utf-8", make: Box::new(move || Ok(show(&page()))) },
    ]
}

/// The loop: it ends never.
fn work(agent: &Shared, look: &mut dyn Look) {
    let begun = Instant::now();
    let mut busy = Instant::now();
    loop {
        let now = begun.elapsed();
        // The guard must not live while a process is read: whoever asks for a page would wait.
        let step = lock(agent).step(now, spent());
        match step {
            Step::Count => {
                let before = thread_cpu_time();
                let mut agent = lock(agent);
                agent.count(now);
                agent.count_cost(thread_cpu_time().saturating_sub(before));
            }
            Step::Read(at) => {
                let Some((key, wanted)) = lock(agent).wanted(at) else { continue };
                let start = Instant::now();
                let seen = look.look(&wanted);
                lock(agent).saw(key, begun.elapsed(), start.elapsed(), seen);
                busy = Instant::now();
            }
            Step::Wait(wait) => {
                if wait > REST || busy.elapsed() > REST {
                    look.rest();
                    lock(agent).rested();
                }
                thread::sleep(wait.min(REST));
            }
        }
    }
}

/// Asks the kubelet for names, whenever a pod has none, and from time to time. One that is away, slow or lies is asked again later, and
/// the names that are known stay.
async fn ask_names(url: String, trust: Trust, agent: Shared) {
    let mut asked: Option<Instant> = None;
    let mut failures = 0;
    loop {
        let old = asked.is_none_or(|asked| asked.elapsed() >= NAMES);
        if old || lock(&agent).has_nameless() {
            match fetch(&url, &trust).await.and_then(|text| Names::parse(&text)) {
                Ok(names) => {
                    lock(&agent).named(names);
                    failures = 0;
                }
                Err(error) => {
                    lock(&agent).nameless_because(error);
                    failures += 1;
                }
            }
            asked = Some(Instant::now());
        }
        tokio::time::sleep(AGAIN * 2_u32.pow(failures.min(4))).await;
    }
}
