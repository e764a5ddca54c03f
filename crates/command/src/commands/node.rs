//! `allocanary node`: the agent of a node. In: an address. Out: pages, until the agent is ended; or one page at once.

use std::process::ExitCode;
use std::time::Duration;

pub mod profile;

use super::{reader, terminal};
use crate::args::{NodeAuth, NodeFlags};
use allocanary_heap::Reader;
use allocanary_node::certificate::CertificateFiles;
use allocanary_node::client::Trust;
use allocanary_node::gate::ApiServer;
use allocanary_node::look::{CounterReply, CounterTarget, HeapReader, LookReply, LookRequest, NoProfile};
use allocanary_node::metrics;
use allocanary_node::run::{AgentOptions, listen, once, run as serve};
use allocanary_rows::error::{Error, Result};
use allocanary_rows::fleet::{Fleet, NodeReport};
use allocanary_screens::views::fleet;
use allocanary_text::units::parse_duration;

/// The memory limit of the child that reads processes. A program of 2 GiB needs less.
const MEMORY: u64 = 128 << 20;
/// The most CPU time that an agent may use, in percent of one core.
const MOST_PERCENT: f64 = 100.0;

/// Runs the agent.
pub fn run(flags: &NodeFlags) -> Result<ExitCode> {
    let options = options(flags)?;
    let mut child = Child { reader: Reader::new(MEMORY) };
    if flags.once {
        let report = once(&options, &mut child).map_err(Error::Input)?;
        let text = match flags.json {
            true => serde_json::to_string(&report).map_err(|error| error.to_string()),
            false => metrics::page(report.into()).map_err(|error| error.to_string()),
        };
        return terminal::print_plain(&text.map_err(Error::Input)?);
    }
    let Some(address) = flags.listen else { return Err(Error::Input("--listen: wanted ADDRESS:PORT".into())) };
    let told = |error| Error::Input(format!("--listen {address}: {error}: choose another port, or end who has it"));
    let listener = listen(address).map_err(told)?;
    let at = listener.local_addr().map_err(told)?;
    let scheme = if options.certificate.is_some() { "https" } else { "http" };
    terminal::tell(format_args!("node {}: {scheme}://{at}/metrics, /report and /report.json", options.node));
    serve(options, listener, &mut child, page).map_err(Error::Input)?;
    Ok(ExitCode::SUCCESS)
}

/// The page of one node.
fn page(report: &NodeReport) -> String {
    fleet::page(&Fleet::of(vec![report.clone()]), None)
}

fn options(flags: &NodeFlags) -> Result<AgentOptions> {
    let every = flags.every.as_deref().map_or(Some(Duration::from_secs(60)), parse_duration);
    let every = every.filter(|every| *every >= Duration::from_secs(1));
    let every = every.ok_or_else(|| Error::Input("--every: wanted a time of at least 1s, such as 60s".into()))?;
    if !(flags.cpu_percent > 0.0 && flags.cpu_percent <= MOST_PERCENT) {
        return Err(Error::Input(format!(
            "--cpu-percent {}: wanted a percentage above 0 and at most {MOST_PERCENT}",
            flags.cpu_percent
        )));
    }
    let own = || std::env::var("NODE_NAME").ok().filter(|name| !name.is_empty());
    let node = flags.name.clone().or_else(own).unwrap_or_else(|| allocanary_sys::host::Host::this().name);
    let trust = Trust::of_pod(flags.kubelet_authority.clone(), flags.kubelet_unverified);
    let kubelet = flags.kubelet.clone().map(|url| (url, trust));
    if flags.otlp.is_some() && cfg!(not(feature = "otlp")) {
        return Err(Error::Input(
            "--otlp: this allocanary was built without it: build it with the feature otlp".into(),
        ));
    }
    let certificate = flags.tls_certificate.clone().zip(flags.tls_key.clone());
    let certificate = certificate.map(|(certificate, key)| CertificateFiles { certificate, key });
    let asks = match flags.auth {
        NodeAuth::None => None,
        NodeAuth::Kubernetes => {
            let told = |error| Error::Input(format!("--auth kubernetes: {error}"));
            Some(ApiServer::of_pod(Trust::of_pod(None, false)).map_err(told)?)
        }
    };
    // Whoever listens on the way could use a token, and names of functions are for those who may.
    let is_reached = flags.listen.is_some_and(|address| !address.ip().is_loopback());
    if is_reached && asks.is_some() && certificate.is_none() {
        return Err(Error::Input(
            "--auth kubernetes: wanted --tls-certificate and --tls-key, or --listen 127.0.0.1:PORT".into(),
        ));
    }
    if is_reached && flags.profiles && asks.is_none() {
        return Err(Error::Input("--profiles: wanted --auth kubernetes, or --listen 127.0.0.1:PORT".into()));
    }
    let (profiles, otlp, share) = (flags.profiles, flags.otlp.clone(), flags.cpu_percent / 100.0);
    Ok(AgentOptions { node, every, share, profiles, otlp, kubelet, certificate, asks })
}

/// The child that reads processes, so that nothing in their memory can harm the agent.
struct Child {
    reader: Reader,
}

impl HeapReader for Child {
    fn look(&mut self, wanted: &LookRequest) -> std::result::Result<LookReply, String> {
        reader::seen(&mut self.reader, wanted)
    }

    fn count(&mut self, wanted: &[CounterTarget], time: Duration) -> std::result::Result<Vec<CounterReply>, String> {
        reader::counted(&mut self.reader, wanted, time)
    }

    fn profile(&mut self, pid: u32) -> std::result::Result<Vec<u8>, NoProfile> {
        profile::read(&mut self.reader, pid)
    }

    fn child(&self) -> Option<u32> {
        self.reader.child()
    }

    fn rest(&mut self) {
        self.reader = Reader::new(MEMORY);
    }
}
