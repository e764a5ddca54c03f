//! Runs the agent. In: options, and a reader of heaps. Out: pages that are served until the process ends.
//!
//! There are two threads. This one keeps all that is known, counts, and has heaps read. The other one serves, and asks the kubelet. They
//! exchange data at the `Desk`.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use allocanary_rows::fleet::{Machine, NodeReport};
use allocanary_sys::proc::ProcStatus;

use crate::agent::Agent;
use crate::asking::NameRequests;
use crate::certificate::{Certificate, CertificateFiles};
use crate::client::{Trust, fetch, runtime};
use crate::costs::{Clock, Costs, Work, resident};
use crate::desk::{Desk, PublishedReport, pages};
use crate::gate::{ApiServer, Gate};
use crate::look::{HeapReader, NoProfile};
use crate::names::PodNames;
#[cfg(feature = "otlp")]
use crate::otlp::Sender;
use crate::profiles::{self, ProfileRequest};
use crate::schedule::AgentStep;
use crate::server::{Guard, serve};
use crate::world::{HostKernel, World};

pub use crate::desk::Show;
pub use allocanary_server::listen;

/// The options of the agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The name of the node.
    pub node: String,
    /// How often all processes are counted.
    pub every: Duration,
    /// The part of a core that the agent may use: 0.01.
    pub share: f64,
    /// Whether anybody may request profiles of processes.
    pub profiles: bool,
    /// The URL of a receiver of OTLP, if one was given: `http://127.0.0.1:4318`.
    pub otlp: Option<String>,
    /// The kubelet's URL, if the kubelet is asked for names: `https://10.0.0.1:10250/pods`.
    pub kubelet: Option<(String, Trust)>,
    /// The certificate, if pages are served by TLS.
    pub certificate: Option<CertificateFiles>,
    /// The API server that says who may have pages, if not everybody may.
    pub asks: Option<ApiServer>,
}

/// If nothing is read for so long, the child ends and its memory is given back.
const REST: Duration = Duration::from_secs(5);
/// A report with newly read heaps is published at most this often between counts, since a new report costs CPU time for each process of the
/// node.
const SHOW: Duration = Duration::from_secs(15);
/// A profile that could not be read is not tried again within this time.
const NOT_AGAIN: Duration = Duration::from_secs(300);
/// The agent is not healthy if the last count is older than this, or than ten times the usual interval.
const PATIENCE: Duration = Duration::from_secs(600);

/// The machine on which the agent runs.
pub fn host() -> Machine {
    let this = allocanary_sys::host::Host::this();
    Machine { cores: this.cores, thp: this.thp, page: this.page_bytes, arch: std::env::consts::ARCH.into() }
}

/// The agent with its clocks, on its own thread.
struct Runner<'a, W> {
    agent: Agent<W>,
    look: &'a mut dyn HeapReader,
    costs: Costs,
    begun: Instant,
    /// When all processes were last counted.
    counted: Instant,
    /// Processes whose profile could not be read: PID, when that was tried, and why.
    failed: Vec<(u32, Instant, String)>,
}

impl<'a, W: World> Runner<'a, W> {
    fn new(world: W, options: &AgentOptions, look: &'a mut dyn HeapReader) -> Runner<'a, W> {
        let agent = Agent::new(world, options.node.clone(), host(), options.every, options.share)
            .with_profiles(options.profiles);
        let begun = Instant::now();
        Runner { agent, look, costs: Costs::default(), begun, counted: begun, failed: Vec::new() }
    }

    fn charge(&mut self, work: Option<Work>) {
        self.costs.look(Clock::now(self.look.child()), work);
    }

    fn count(&mut self) {
        self.charge(None);
        self.counted = Instant::now();
        let before = self.costs.counts;
        self.agent.count(self.begun.elapsed(), self.look);
        self.charge(Some(Work::Count));
        self.agent.counted_for(self.begun.elapsed(), self.costs.counts - before);
    }

    /// Reads the process at this position of the list, if it is still there.
    fn read(&mut self, at: usize) {
        let Some((key, wanted)) = self.agent.wanted(at) else { return };
        self.charge(None);
        let seen = self.look.look(&wanted);
        self.agent.saw(key, self.begun.elapsed(), seen);
        let before = self.costs.walks;
        self.charge(Some(Work::Walk));
        self.agent.paid(key, self.costs.walks - before);
    }

    /// Reads the profile for a request, unless the client has gone.
    fn profile(&mut self, asked: ProfileRequest) {
        if asked.is_given_up() {
            return;
        }
        self.charge(None);
        let owes = self.agent.owes(self.begun.elapsed(), self.costs.profiles);
        let read = owes.map_or_else(|| Ok(self.read_profile(asked.pid, asked.is_named)), Err);
        asked.answer(read);
        self.charge(Some(Work::Profile));
    }

    /// Remembers failures: a process that keeps the child waiting costs a child each time, so it is not tried again at once.
    fn read_profile(&mut self, pid: u32, is_named: bool) -> Result<Vec<u8>, NoProfile> {
        self.failed.retain(|(_, at, _)| at.elapsed() < NOT_AGAIN);
        if let Some((_, at, why)) = self.failed.iter().find(|(failed, ..)| *failed == pid) {
            let (ago, minutes) = (at.elapsed().as_secs(), NOT_AGAIN.as_secs() / 60);
            return Err(NoProfile::Failed(format!(
                "{why}; that was {ago} s ago, and it is not tried again for {minutes} minutes"
            )));
        }
        let is_another = |agent: &Agent<W>| is_named && !agent.is_same(pid);
        let ended =
            || NoProfile::None(format!("process {pid} has ended since the last count: ask again after the next"));
        if is_another(&self.agent) {
            return Err(ended());
        }
        let read = self.look.profile(pid);
        if is_another(&self.agent) {
            return Err(ended());
        }
        if let Err(NoProfile::Failed(why)) = &read {
            self.failed.push((pid, Instant::now(), why.clone()));
        }
        read
    }

    fn heard(&mut self, told: Result<PodNames, String>) {
        match told {
            Ok(names) => self.agent.named(names),
            Err(error) => self.agent.nameless_because(error),
        }
    }

    fn report(&mut self) -> NodeReport {
        self.charge(None);
        let child = self.look.child().map_or(0, |pid| resident(ProcStatus::of(pid)));
        self.agent.report(self.begun.elapsed(), &self.costs, resident(ProcStatus::own()) + child)
    }
}

/// Counts once, reads each heap that is worth it once, and returns the report. Somebody waits for it, so that no budget limits its processor time.
/// If the kubelet does not answer, the report names pods by their UIDs, and a problem says why.
pub fn once(options: &AgentOptions, look: &mut dyn HeapReader) -> Result<NodeReport, String> {
    once_in(HostKernel::new(), options, look)
}

fn once_in<W: World>(world: W, options: &AgentOptions, look: &mut dyn HeapReader) -> Result<NodeReport, String> {
    let mut runner = Runner::new(world, options, look);
    if let Some((url, trust)) = &options.kubelet {
        runner.heard(runtime()?.block_on(fetch(url, trust)).and_then(|text| PodNames::parse(&text)));
    }
    runner.count();
    while let Some(at) = runner.agent.untried(runner.begun.elapsed()) {
        runner.read(at);
    }
    Ok(runner.report())
}

/// Runs until the process ends. The error is one of the start.
pub fn run(options: AgentOptions, listener: TcpListener, look: &mut dyn HeapReader, show: Show) -> Result<(), String> {
    run_in(HostKernel::new(), options, listener, look, show)
}

fn run_in<W: World>(
    world: W,
    options: AgentOptions,
    listener: TcpListener,
    look: &mut dyn HeapReader,
    show: Show,
) -> Result<(), String> {
    let certificate = options.certificate.clone().map(Certificate::read).transpose()?.map(Arc::new);
    #[cfg(feature = "otlp")]
    let since = world.time();
    let mut runner = Runner::new(world, &options, look);
    // The first count comes before the server, so that the first request also gets rows.
    runner.count();
    let desk = Arc::new(Desk::default());
    #[cfg(feature = "otlp")]
    let sender = options.otlp.as_deref().map(|url| Sender::new(url, since)).transpose()?;
    show_now(&mut runner, &desk);
    let guard = Guard { gate: options.asks.map(Gate::new), certificate: certificate.clone() };
    let runtime = runtime()?;
    let (queue, asks) = channel();
    let (asked, followed) = (desk.clone(), desk.clone());
    // This sender keeps the channel open as long as this function runs. Without `--profiles` nobody sends, and the agent waits for requests
    // all the same.
    let asking = queue.clone();
    let server = thread::Builder::new().name("http".into()).spawn(move || {
        runtime.block_on(async {
            let mut pages = pages(&asked, show, PATIENCE.max(options.every.saturating_mul(10)));
            if options.profiles {
                pages.extend(profiles::pages(&asked, asking));
            }
            #[cfg(feature = "otlp")]
            if let Some(sender) = sender {
                tokio::spawn(sender.send(asked.clone()));
            }
            if let Some((url, trust)) = options.kubelet {
                tokio::spawn(ask_names(url, trust, asked));
            }
            if let Some(certificate) = certificate {
                tokio::spawn(certificate.follow(followed));
            }
            serve(listener, pages, guard).await
        })
    });
    server.map_err(|error| format!("starting the server: {error}"))?;
    work(&mut runner, &desk, &asks);
    drop(queue);
    Ok(())
}

fn show_now<W: World>(runner: &mut Runner<W>, desk: &Desk) {
    let mut report = runner.report();
    report.problems.extend(desk.problem_of_certificate());
    report.own.sent = desk.sent();
    report
        .problems
        .extend(report.own.sent.iter().filter(|sent| !sent.problem.is_empty()).map(|sent| sent.problem.clone()));
    desk.show(PublishedReport::new(report, runner.agent.nameless(), runner.counted));
}

/// The loop, which never ends.
fn work<W: World>(runner: &mut Runner<W>, desk: &Desk, asks: &Receiver<ProfileRequest>) {
    let (mut busy, mut shown, mut is_old) = (Instant::now(), Some(Instant::now()), false);
    loop {
        // One request at a time, before other work, because a person waits for it.
        if let Ok(asked) = asks.try_recv() {
            runner.profile(asked);
            busy = Instant::now();
        }
        if let Some(told) = desk.take() {
            runner.heard(told);
            is_old = true;
        }
        runner.charge(None);
        match runner.agent.step(runner.begun.elapsed(), runner.costs.without_profiles()) {
            AgentStep::Count => {
                runner.count();
                (is_old, shown) = (true, None);
            }
            AgentStep::Read(at) => {
                runner.read(at);
                (is_old, busy) = (true, Instant::now());
            }
            AgentStep::Wait(wait) => {
                if wait > REST || busy.elapsed() > REST {
                    runner.look.rest();
                }
                if let Ok(asked) = asks.recv_timeout(wait.min(REST)) {
                    runner.profile(asked);
                    busy = Instant::now();
                }
            }
        }
        if is_old && shown.is_none_or(|shown| shown.elapsed() >= SHOW) {
            show_now(runner, desk);
            (is_old, shown) = (false, Some(Instant::now()));
        }
    }
}

/// Asks the kubelet for names, again and again. If it is away, slow or lies, it is asked again later, and the names that are known stay.
async fn ask_names(url: String, trust: Trust, desk: Arc<Desk>) {
    let begun = Instant::now();
    let mut asking = NameRequests::default();
    loop {
        let shown = desk.shown();
        if asking.is_due(begun.elapsed(), &shown.nameless) {
            let told = fetch(&url, &trust).await.and_then(|text| PodNames::parse(&text));
            match &told {
                Ok(_) => asking.answered(begun.elapsed(), &shown.nameless),
                Err(_) => asking.failed(),
            }
            desk.tell(told);
        }
        drop(shown);
        tokio::time::sleep(asking.pause()).await;
    }
}

#[cfg(test)]
#[path = "run_test.rs"]
mod tests;
