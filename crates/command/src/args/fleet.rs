//! Flags of `node` and `fleet`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// Who may have the pages of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NodeAuth {
    /// Everybody who reaches the port.
    #[default]
    None,
    /// Those of whom the cluster's API server says that they may.
    Kubernetes,
}

/// Flags of `node`.
#[derive(Args, Clone, Default)]
pub struct NodeFlags {
    /// The address at which the agent serves /metrics, /report and /report.json.
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "once")]
    pub listen: Option<SocketAddr>,
    /// Read every process once, print the metrics, and end [default: run until stopped].
    #[arg(long, conflicts_with = "listen")]
    pub once: bool,
    /// Print the report as JSON in place of the metrics [default: off].
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Ask this kubelet for the names of pods, such as https://10.0.0.1:10250/pods [default: pods have UIDs].
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub kubelet: Option<String>,
    /// The authority that has signed the kubelet's certificate [default: the cluster's, from the pod's service account].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "kubelet", conflicts_with = "kubelet_unverified")]
    pub kubelet_authority: Option<PathBuf>,
    /// Do not check the kubelet's certificate: many kubelets have one that no authority has signed. Whoever answers gets the token [default:
    /// check it].
    #[arg(long, requires = "kubelet")]
    pub kubelet_unverified: bool,
    /// Who may have the pages. `kubernetes` asks the API server about the bearer token of each request; /healthz needs none. At an address that
    /// others reach, it wants TLS.
    #[arg(long, value_name = "WHO", default_value = "none", conflicts_with = "once")]
    pub auth: NodeAuth,
    /// Serve the pages by TLS, with the certificate in this PEM file. A renewed file is shown without a restart [default: plain HTTP].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key", conflicts_with = "once")]
    pub tls_certificate: Option<PathBuf>,
    /// The key of the certificate [default: none].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Also serve the profile of a process that has one, at /debug/pprof/heap?pid=N: names of functions and sizes. At an address that others
    /// reach, it wants `--auth kubernetes` [default: off].
    #[arg(long, conflicts_with = "once")]
    pub profiles: bool,
    /// Also send the metrics to this receiver of OTLP after each count, such as http://127.0.0.1:4318. The agent appends /v1/metrics [default:
    /// none].
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, conflicts_with = "once")]
    pub otlp: Option<String>,
    /// The name of this node [default: NODE_NAME, or the host's name].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The time between two counts of all processes [default: 60s].
    #[arg(long, value_name = "TIME")]
    pub every: Option<String>,
    /// The CPU time that the agent may use, in percent of one core [default: 1].
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, hide_default_value = true)]
    pub cpu_percent: f64,
}

/// What `fleet` and `try` show to agents, and whom they believe.
#[derive(Args, Clone, Default)]
pub struct AgentTrust {
    /// The file with a bearer token for agents with `--auth kubernetes`. It is shown over TLS only [default: none].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token: Option<PathBuf>,
    /// The PEM file of the authority that has signed the agents' certificates [default: the cluster's, in a pod].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub authority: Option<PathBuf>,
}

/// Flags of `fleet`.
#[derive(Args, Clone, Default)]
pub struct FleetFlags {
    /// Agents, such as http://10.0.0.1:9912, and files of their /report.json.
    #[arg(value_name = "NODE", required = true, value_hint = ValueHint::AnyPath)]
    pub nodes: Vec<String>,
    /// What agents with TLS or tokens want.
    #[command(flatten)]
    pub trust: AgentTrust,
    /// Print JSON, for a script [default: off].
    #[arg(long)]
    pub json: bool,
    /// The price of one GiB for a month: the answer then has the most that can be saved [default: none].
    #[arg(long, value_name = "PRICE")]
    pub price: Option<f64>,
    /// Also write a page with a map (*.html), or the JSON (*.json) [default: none].
    #[arg(long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub to: Option<PathBuf>,
}
